"""Making what was written survive the loss of power.

Belongs here: handing files and folders to the disk. Does not belong here: what they hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_AT_ONCE = 8
"""A file system commits 200 files together far sooner than one by one."""


def sync(path: Path) -> None:
    """Make one file, or the names in one folder, durable."""
    _sync_all([str(path)])


def replace_durably(aside: Path, target: Path) -> None:
    """Put a finished file in the place of another: old or new after a crash, never a mixture."""
    sync(aside)
    aside.replace(target)
    # A rename is durable only when the folder that records it is.
    sync(target.parent)


def sync_tree(folder: Path) -> None:
    """Make a finished tree durable at once."""
    sync_together(list(_inside(str(folder))))


def sync_together(paths: Sequence[str]) -> None:
    """Make files, and names in folders, durable at once."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for _ in pool.map(_sync_all, (paths[start::_AT_ONCE] for start in range(_AT_ONCE))):
            pass


def _sync_all(paths: Iterable[str]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _inside(folder: str) -> Iterator[str]:
    """A folder and what is in it. What is no file and no folder, such as a socket, holds nothing."""
    yield folder
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _inside(entry.path)
            elif entry.is_file():
                yield entry.path
