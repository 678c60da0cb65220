"""Three small published collections with random labels, and who asks them.

Belongs here: points, their live owners, a way to ask. Does not belong here: expectations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from counting_embedder import HashEmbedder
from threadhouse.retrieval.audience import AudiencePolicy, Labels, LanePolicy
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    Json,
    LifecycleStage,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    VectorPoint,
    Visibility,
)
from threadhouse.retrieval.payloads import PAYLOAD_SCHEMA, label_fields, point_id, validate_payload
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.query_text import PreparedQuery, prepare_query
from threadhouse.retrieval.search import LiveOwner, SearchOutcome, search_collections
from threadhouse.stores.vectors import open_reader, open_writer

T = TypeVar("T")

WORDS = [
    *("hợp", "đồng", "lao", "động", "nghỉ", "phép", "năm", "tiền", "lương"),
    *("refund", "policy", "annual", "leave", "report", "484", "PEP"),
]
CONTENT = (Collection.PRODUCTION_DOCUMENTS, Collection.INFORMATION_UNITS)
EVERYTHING = (*CONTENT, Collection.THREAD_CENTROIDS)


@dataclass(frozen=True, slots=True)
class Placed:
    """A point as it was written."""

    collection: Collection
    payload: Mapping[str, Json]
    labels: Labels
    owner_id: str
    version_key: str


@dataclass
class SearchHouse:
    """Published collections; ``owners`` is what the source of truth says now, free to be changed by a test."""

    searcher: VectorSearcher
    placed: Mapping[UUID, Placed]
    owners: dict[tuple[Collection, str], LiveOwner] = field(
        default_factory=dict[tuple[Collection, str], LiveOwner]
    )
    reads: list[Collection] = field(default_factory=list[Collection])

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        assert physical.startswith(collection)
        self.reads.append(collection)
        asked = [(owner_id, (collection, owner_id)) for owner_id in owner_ids]
        return lambda: {i: self.owners[key] for i, key in asked if key in self.owners}

    def ask(
        self,
        text: str,
        collections: Sequence[Collection] = CONTENT,
        *,
        principal: Principal | None = None,
        policy: AudiencePolicy | None = None,
        limit: int = 1_000,
        **options: object,
    ) -> SearchOutcome:
        return search_collections(
            prepare(text),
            principal or Principal("tester", Audience.AI_AGENT),
            collections,
            policy=policy or open_policy(),
            searcher=self.searcher,
            live=self,
            limit=limit,
            **options,  # pyright: ignore[reportArgumentType]
        )


def prepare(text: str) -> PreparedQuery:
    return prepare_query(text, HashEmbedder().embed_query)


def open_policy(**closed: frozenset[str]) -> AudiencePolicy:
    """Every lane sees everything that has all its labels, except what ``closed`` says."""
    allowed: dict[str, frozenset[str]] = {
        "visibility": frozenset(Visibility),
        "readiness": frozenset(Readiness),
        "publication_state": frozenset(PublicationState),
        "risk_class": frozenset(RiskClass),
        "authority": frozenset(Authority),
        "lifecycle_stage": frozenset(LifecycleStage),
        "data_classification": frozenset(DataClassification),
    } | closed
    lane = LanePolicy(**allowed)  # pyright: ignore[reportArgumentType]
    return AudiencePolicy(1, dict.fromkeys(Audience, lane))


def publish_house(home: Path, *, points: int = 60, seed: int = 7) -> SearchHouse:
    """Random points, the same for the same seed; some lack a label, some owners have two chunks."""
    dice = random.Random(seed)
    embedder = HashEmbedder()
    placed: dict[UUID, Placed] = {}
    with open_writer(home=home) as writer:
        for collection in EVERYTHING:
            physical = writer.ensure_collection(collection, embedder.space)
            written: list[VectorPoint] = []
            for number in range(points):
                payload, labels, text = _random_point(dice, collection, number)
                validate_payload(collection, payload)
                owner_id, version_key = owner_key(collection, payload)
                identity = point_id(collection, f"{version_key}:{number}", number)
                placed[identity] = Placed(collection, payload, labels, owner_id, version_key)
                written.append(
                    VectorPoint(
                        identity,
                        embedder.embed_passages([f"{collection} {number} {text}"]).data[0],
                        document_vector(text, TermForm.ACCENTED),
                        document_vector(text, TermForm.FOLDED),
                        payload,
                    )
                )
            writer.upsert(physical, embedder.space.space_id, written)
            writer.publish(physical)
    owners = {
        (point.collection, point.owner_id): LiveOwner(point.version_key, point.labels)
        for point in placed.values()
    }
    return SearchHouse(open_reader(home=home), placed, owners)


def _random_point(
    dice: random.Random, collection: Collection, number: int
) -> tuple[dict[str, Json], Labels, str]:
    owner = number if collection is Collection.THREAD_CENTROIDS else number // 2
    # Labels belong to the owner, so its chunks share them.
    labels = _random_labels(random.Random(f"{collection} {owner}"))
    text = " ".join(dice.choices(WORDS, k=dice.randint(2, 12)))
    lane = dice.choice(list(Audience))
    metadata: dict[str, Json] = {
        "title": " ".join(dice.choices(WORDS, k=3)),
        "tags": dice.sample(WORDS, k=2),
        "path": f"{dice.choice(WORDS)}/{dice.choice(WORDS)}.md",
        "language": dice.choice(["vi", "en"]),
        "chunk_index": number % 2,
        "total_chunks": 2,
        "char_start": number,
        "char_end": number + 1,
        "content_hash": "0" * 64,
        "payload_schema": PAYLOAD_SCHEMA,
        **label_fields(labels),
    }
    document_id = f"document-{owner // 2}"
    match collection:
        case Collection.PRODUCTION_DOCUMENTS:
            document_id = f"document-{owner}"
            metadata |= {"source_revision": 1}
        case Collection.INFORMATION_UNITS:
            metadata |= {
                "logical_unit_id": f"unit-{owner}",
                "unit_version_id": str(UUID(int=owner + 1)),
                "unit_kind": "clause",
                "canonical_address": f"unit-{owner}",
                "source_revision": 1,
            }
        case Collection.THREAD_CENTROIDS:
            document_id = f"thread-{owner}"
            metadata |= {
                "thread_id": document_id,
                "lane": lane,
                "unit_count": 1,
                "cohesion": 1.0,
            }
    return {"document_id": document_id, "metadata": metadata}, labels, text


def _random_labels(dice: random.Random) -> Labels:
    def pick(values: Sequence[T]) -> T | None:
        return None if dice.random() < 0.05 else dice.choice(values)

    return Labels(
        Flags(
            pick(list(Visibility)),
            pick(list(Readiness)),
            pick(list(PublicationState)),
            pick(list(RiskClass)),
            pick(list(Authority)),
        ),
        pick(list(LifecycleStage)),
        pick(list(DataClassification)),
    )
