"""Copies of a live shard that its writer keeps open and brings up to date by what changed, so that not every publish copies all.

Belongs here: what a twin lacks, catching it up, showing its files to readers.
Does not belong here: when a twin takes its turn, pointers, leases and whole copies (stores.vectors_edge).

A published copy shows the files of a twin under names of its own: hard links. While it is there, nothing writes to the twin, so
the links are as good as copies; and when the writer is killed, the folder of the twin goes and the links keep what readers need.
What an engine that opens the copy may change has no link: it is copied, or left out.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast
from uuid import UUID

import qdrant_edge as edge

PUBLISHES_BEFORE_TWINS = 2
"""A writer that comes back once more will come again. A night publishes a collection two or three times, and an open shard takes
memory: 160 MB for 12,500 points with long texts."""

MOST_TWINS = 3
"""Two take turns; a third does when a reader that asks nothing holds on to one of them."""

MOST_BEHIND = 0.1
"""Share of the points above which a whole copy costs less than catching up; see FEW_POINTS."""

FEW_POINTS = 200
"""So many are always caught up: a whole copy of the smallest shard has 170 files to make."""

_BATCH = 1_000

_LEFT_OUT = frozenset({"tracker_journal.dat"})
"""Repeats what a flush has written to its tracker already, for a writer that is killed in the middle. Whoever opens a shard
removes it, and the twin's own engine would miss it."""

_SETTINGS = frozenset({"segment.json", "edge_config.json"})
_ID_TRACKER = "id_tracker."
"""Written by whoever opens a shard: settings, and the versions of deleted points, which become zero (8 bytes a point; points that
nobody finds any more, so readers that open a copy at once may all do it)."""


@dataclass(slots=True)
class Twin:
    """An open copy of a live shard, without a log of its own.

    Attributes:
        folder: Only this writer knows it; it goes when the writer closes, or when the next one opens.
        seq: The published copy that shows the twin's files; only without one may the twin be written.
        behind: Points that were written or deleted in the live shard and not here.
    """

    folder: Path
    shard: edge.EdgeShard
    seq: int | None = None
    behind: set[UUID] = field(default_factory=set[UUID])

    @property
    def last_shown(self) -> Path:
        """The published copy that showed it last, kept because most of its links can be used again."""
        return self.folder / "shown"

    def catch_up(self, live: edge.EdgeShard) -> bool:
        """Make the points that differ what they are in ``live``; whether the twin then holds what ``live`` holds."""
        ids = iter(self.behind)
        while batch := cast("list[edge.PointId]", list(islice(ids, _BATCH))):
            wanted = live.retrieve(batch, True, True)
            present = {record.id for record in wanted}
            gone = [point for point in batch if point not in present]
            if gone:
                self.shard.update(edge.UpdateOperation.delete_points(gone))
            if wanted:
                points = [edge.Point(r.id, r.vector or {}, r.payload) for r in wanted]
                self.shard.update(edge.UpdateOperation.upsert_points(points))
            stored = self.shard.retrieve(batch, True, False)
            if {r.id: r.payload for r in stored} != {r.id: r.payload for r in wanted}:
                return False
        self.behind.clear()
        self.shard.flush()
        everything = edge.CountRequest(exact=True)
        return self.shard.count(everything) == live.count(everything)

    def show(self, shard_folder: Path) -> set[str]:
        """Make a folder, which may be what showed it last, into the shard that readers open: the twin as it is now.

        Returns:
            Files and folders that have yet to be made durable; what had a link already was, when the twin was flushed.
        """
        written: set[str] = set()
        _show(str(shard_folder_of(self.folder)), str(shard_folder), written)
        return written

    def close(self) -> None:
        """Give back its memory and its names. A published copy that shows it stays whole."""
        self.shard.close()
        shutil.rmtree(self.folder)


def shard_folder_of(folder: Path) -> Path:
    """Where the shard of a twin is in its folder."""
    return folder / "shard"


def open_twin(folder: Path) -> Twin:
    """Open a whole copy of a live shard, which is in a folder of its own."""
    twin = Twin(folder, edge.EdgeShard.load(str(shard_folder_of(folder))))
    # Opening removes what an open shard leaves for the next one to do; flushed, that is done for readers too.
    twin.shard.flush()
    return twin


def _show(source: str, target: str, written: set[str]) -> None:
    # Paths as text: of the hundreds of files that are looked at, few have changed.
    if not Path(target).exists():
        Path(target).mkdir()
        written |= {target, str(Path(target).parent)}
    with os.scandir(target) as entries:
        shown = {entry.name: entry for entry in entries}
    before = {name: entry.inode() for name, entry in shown.items()}
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in _LEFT_OUT:
                continue
            shown.pop(entry.name, None)
            into = f"{target}/{entry.name}"
            if entry.is_dir():
                _show(entry.path, into, written)
            elif entry.name in _SETTINGS or _ID_TRACKER in entry.name:
                shutil.copyfile(entry.path, into)
                written |= {target, into}
            elif before.get(entry.name) != entry.inode():
                Path(into).unlink(missing_ok=True)
                Path(into).hardlink_to(entry.path)
                written |= {target, into}
    for gone in shown.values():
        written.add(target)
        if gone.is_dir():
            shutil.rmtree(gone.path)
        else:
            Path(gone.path).unlink()


def can_link(folder: Path) -> bool:
    """Whether the file system has hard links; some that are made for exchange have none."""
    probe, link = folder / "probe", folder / "probe-link"
    probe.write_text("")
    try:
        link.hardlink_to(probe)
    except OSError:
        return False
    else:
        link.unlink()
        return True
    finally:
        probe.unlink()
