"""Packs that this process has parsed already.

Belongs here: keeping them within a bound.
Does not belong here: whether one may be served; only a lookup in Postgres says so, and it names the content by its id. So nothing
here can be stale: another content has another id.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.packs import ContextPack
from threadhouse.stores.array_literals import array_literal

MEMORY_CHARS = 24_000_000
"""Text of all packs in memory together. With everything around it a character took 6 bytes in made-up prose and 9 in laws with
their many links, so 150 to 220 MB."""


@dataclass(frozen=True, slots=True)
class KnownPack:
    """A parsed pack and what its last check asks about.

    Attributes:
        unit_ids, version_ids: Its units and their versions, in one order, as arrays in Postgres' own notation: written once,
            since a pack of hundreds of units is checked far more often than it changes.
        end_count, end_kinds, end_ids: Likewise, all that it names besides its units: other ends of links, what was left out,
            stages with gaps.
    """

    pack: ContextPack
    unit_count: int
    unit_ids: str
    version_ids: str
    end_count: int
    end_kinds: str
    end_ids: str
    text_chars: int

    @classmethod
    def of(cls, pack: ContextPack) -> KnownPack:
        """A pack as it is kept."""
        # Only a search gives parts of documents, which are checked as documents; in a thread's pack nothing goes unchecked.
        units = [
            unit for unit in pack.units() if pack.thread_id or unit.unit_kind != LEGACY_UNIT_KIND
        ]
        unit_ids = {unit.logical_unit_id for unit in units}
        links = pack.related_design_code_links
        named: set[tuple[str, str]] = {
            (link.other_end_kind, link.other_end_id) for link in links if not link.is_dangling
        }
        named |= {("unit", each.logical_unit_id) for each in (*pack.suspect_links, *pack.left_out)}
        named |= {("stage", gap.lifecycle_stage.value) for gap in pack.known_gaps}
        ends = sorted(named - {("unit", unit_id) for unit_id in unit_ids})
        return cls(
            pack,
            len(units),
            array_literal(unit.logical_unit_id for unit in units),
            array_literal(str(unit.unit_version_id) for unit in units),
            len(ends),
            array_literal(kind for kind, _ in ends),
            array_literal(end_id for _, end_id in ends),
            sum(len(unit.body) for unit in units),
        )


class PackMemory:
    """The packs used last, by thread and lane; safe between threads."""

    def __init__(self, limit_chars: int = MEMORY_CHARS) -> None:
        self._limit_chars = limit_chars
        self._packs: OrderedDict[tuple[str, Audience], KnownPack] = OrderedDict()
        self._chars = 0
        self._lock = threading.Lock()

    def get(self, thread_id: ThreadId, lane: Audience) -> KnownPack | None:
        """What is known of a (thread, lane), fresh or not."""
        with self._lock:
            known = self._packs.get((thread_id, lane))
            if known is not None:
                self._packs.move_to_end((thread_id, lane))
            return known

    def put(self, known: KnownPack) -> None:
        """Remember a pack in the place of the one before it; the ones used longest ago go."""
        key = (known.pack.thread_id, known.pack.lane)
        with self._lock:
            before = self._packs.pop(key, None)
            self._chars -= before.text_chars if before else 0
            self._packs[key] = known
            self._chars += known.text_chars
            while self._chars > self._limit_chars and len(self._packs) > 1:
                _, oldest = self._packs.popitem(last=False)
                self._chars -= oldest.text_chars
