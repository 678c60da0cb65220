"""Answering as a rehearsal: everything is looked up, built and checked as for a reader, and nothing leaves.

Belongs here: the delivery of a service whose answers are for the pipeline. Does not belong here: which questions are rehearsed.

Nothing is counted: no event, no gap, no delivered pack, so no rate, no session and no citation ever knows of it. Nothing is kept
either: a pack that a rehearsal builds may be made from what is about to be thrown away. What the last check stops is written down
all the same; that a reader was not there does not make it less of a leak.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from uuid import UUID

from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.fallback import GapSignal
from threadhouse.retrieval.models import Principal
from threadhouse.retrieval.packs import ContextPack
from threadhouse.stores.live_owners import Connections
from threadhouse.stores.pack_delivery import Delivery, Leak, PackDelivery
from threadhouse.stores.pack_store import BuiltPack


class _Rehearsal(Delivery):
    def write(
        self,
        events: Sequence[RetrievalEvent],
        pack: ContextPack | None = None,
        gaps: Sequence[GapSignal] = (),
    ) -> Callable[[], int]:
        """Nothing has left."""
        del events, pack, gaps
        return lambda: 0


class RehearsedDelivery(PackDelivery):
    """Opens transactions in which packs are made and none leaves.

    Args:
        connections: Where everything is read; may be inside a transaction that is thrown away.
        for_good: Where a leak is written down: outside of it.
    """

    def __init__(self, connections: Connections, for_good: Connections) -> None:
        super().__init__(connections)
        self._for_good = PackDelivery(for_good)

    @contextmanager
    def begin(self) -> Generator[Delivery, None, None]:
        """Yield a transaction in which nothing is written down."""
        with self._connections() as connection:
            yield _Rehearsal(connection, self._memory)

    def keep(self, built: BuiltPack) -> bool:
        """Keeps nothing."""
        del built
        return False

    def refuse(self, leak: Leak, principal: Principal, query_id: UUID) -> None:
        """Write the leak down for good."""
        self._for_good.refuse(leak, principal, query_id)
