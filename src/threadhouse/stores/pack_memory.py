"""Packs that this process has parsed already.

Belongs here: keeping them within a bound.
Does not belong here: whether one may be served; only a lookup in Postgres says so, and it names the content by its id. So nothing
here can be stale: another content has another id.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from threadhouse.retrieval.fallback import LEGACY_UNIT_KIND
from threadhouse.retrieval.models import Audience, ThreadId
from threadhouse.retrieval.packs import ContextPack

MEMORY_CHARS = 64_000_000
"""Text of all packs in memory together: some hundred big threads, about 200 MB with everything around the text."""


@dataclass(frozen=True, slots=True)
class KnownPack:
    """A parsed pack and what its last check asks about."""

    pack: ContextPack
    unit_ids: tuple[str, ...]
    version_ids: tuple[UUID, ...]
    text_chars: int

    @classmethod
    def of(cls, pack: ContextPack) -> KnownPack:
        """A pack as it is kept."""
        units = [unit for unit in pack.units() if unit.unit_kind != LEGACY_UNIT_KIND]
        return cls(
            pack,
            tuple(unit.logical_unit_id for unit in units),
            tuple(unit.unit_version_id for unit in units),
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
