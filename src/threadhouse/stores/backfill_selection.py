"""What a backfill is about: owners and threads by name, by what they belong to, by lane, by time; and what it would cost.

Belongs here: turning a selection into owners and threads, counting what doing them again takes.
Does not belong here: doing it (stores.projection, stores.centroid_projection, stores.pack_refresh), options (pipelines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.projection import ContentScope
from threadhouse.stores import queries
from threadhouse.stores.embedding_cache import CachedEmbedder, CacheSurvey
from threadhouse.stores.projection_sources import DocumentSource, UnitSource

SAMPLE_OWNERS = 500
"""Owners that are cut for an estimate; of more, so many are taken evenly and the rest is put down as like them."""

_NAMED = 5


@dataclass(frozen=True, slots=True)
class BackfillSelection:
    """Everything, or what any of the names covers; lanes and a time leave out the rest.

    Attributes:
        documents: Document ids: all their units, or their text.
        units: Logical unit ids.
        threads: Thread ids: for vectors their units.
        lanes: For threads: those that any of these lanes has a pack of.
        begins: For vectors: versions written from then on. For threads: packs built from then on.
        ends: The first instant after the time.
    """

    documents: Sequence[str] = ()
    units: Sequence[str] = ()
    threads: Sequence[str] = ()
    lanes: Sequence[Audience] = ()
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def names_nothing(self) -> bool:
        """Whether everything is meant, but for lanes and time."""
        return not (self.documents or self.units or self.threads)

    def parameters(self) -> dict[str, Any]:
        """For the statements that select."""
        return {
            "everything": self.names_nothing,
            "documents": list(self.documents),
            "units": list(self.units),
            "threads": list(self.threads),
            "lanes": list(self.lanes) or None,
            "begins": self.begins,
            "ends": self.ends,
        }


@dataclass(frozen=True, slots=True)
class BackfillCost:
    """What a backfill would do.

    Attributes:
        counts: Things to do, by name.
        texts_to_embed: Texts that the cache does not know.
        is_estimate: Whether the number of texts was put down from a sample.
        seconds: From the speeds that builders were measured at; None where none was.
    """

    counts: Mapping[str, int]
    texts_to_embed: int
    is_estimate: bool
    seconds: float | None


def require_known(connection: Connection[TupleRow], selection: BackfillSelection) -> None:
    """Raise ConfigurationError naming the first names that nothing has."""
    rows = connection.execute(queries.load("backfill_unknown"), selection.parameters()).fetchall()
    if rows:
        named = ", ".join(f"{kind} {name}" for kind, name in rows[:_NAMED])
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        message = f"There is no {named}{more}; nothing was done."
        raise ConfigurationError(message)


def select_content(connection: Connection[TupleRow], selection: BackfillSelection) -> ContentScope:
    """Units and legacy documents of a selection."""
    parameters = selection.parameters()
    units, documents = (
        frozenset(row[0] for row in connection.execute(queries.load(query), parameters))
        for query in ("backfill_units", "backfill_documents")
    )
    return ContentScope(units=units, documents=documents)


def select_threads(
    connection: Connection[TupleRow], selection: BackfillSelection
) -> frozenset[str]:
    """Threads of a selection."""
    rows = connection.execute(queries.load("backfill_threads"), selection.parameters())
    return frozenset(row[0] for row in rows)


def cost_of_vectors(
    connection: Connection[TupleRow], scope: ContentScope, embedder: CachedEmbedder
) -> BackfillCost:
    """What writing these owners again takes: every vector comes from the cache or, where that does not know it, from the model.

    The speed of the model is measured now, that of writing is the one that builders had lately.
    """
    survey = CacheSurvey(embedder.inner, embedder.cache)
    chunks, factor = 0.0, 1.0
    for source, owners in ((UnitSource(), scope.units), (DocumentSource(), scope.documents)):
        sample, stands_for = _sample(sorted(owners))
        factor = max(factor, stands_for)
        texts = source.read_texts(connection, sample)
        passages = [
            (text.title, span.text)
            for text in texts.values()
            for span, _ in source.cut(text, embedder)
        ]
        source.embed(passages, survey)
        chunks += len(passages) * stands_for
    rate = survey.chars_per_s()
    a_write, _ = _speeds(connection)
    seconds = chunks * a_write if a_write is not None else None
    if rate is not None and seconds is not None:
        seconds += survey.missing_chars * factor / rate
    return BackfillCost(
        {"units": len(scope.units), "documents": len(scope.documents), "chunks": round(chunks)},
        round(len(survey.missing) * factor),
        is_estimate=factor > 1,
        seconds=seconds,
    )


def cost_of_threads(
    connection: Connection[TupleRow], threads: frozenset[str], *, packs: bool
) -> BackfillCost:
    """What building the packs (or else the centroids) of these threads again takes, at most one for each lane."""
    a_write, a_pack = _speeds(connection)
    each = a_pack if packs else a_write
    made = len(threads) * len(Audience)
    counts = {"threads": len(threads), "packs" if packs else "centroids": made}
    return BackfillCost(counts, 0, is_estimate=False, seconds=None if each is None else made * each)


def _sample(owners: Sequence[str]) -> tuple[Sequence[str], float]:
    """At most `SAMPLE_OWNERS` of them, evenly, and how many each stands for."""
    if len(owners) <= SAMPLE_OWNERS:
        return owners, 1.0
    taken = [owners[at * len(owners) // SAMPLE_OWNERS] for at in range(SAMPLE_OWNERS)]
    return taken, len(owners) / SAMPLE_OWNERS


def _speeds(connection: Connection[TupleRow]) -> tuple[float | None, float | None]:
    """Seconds for a vector that is written without embedding, and for a pack."""
    row = connection.execute(queries.load("backfill_speeds")).fetchone()
    return (None, None) if row is None else (row[0], row[1])
