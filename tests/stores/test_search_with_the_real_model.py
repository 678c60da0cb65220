"""Search with the offline model on a few texts in two languages: what a reader asks for comes first."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from search_house import open_policy
from threadhouse.retrieval.audit import owner_key
from threadhouse.retrieval.bm25 import TermForm, document_vector
from threadhouse.retrieval.models import Audience, Collection, Json, Principal, VectorPoint
from threadhouse.retrieval.payloads import labels_from_metadata
from threadhouse.retrieval.query_text import prepare_query
from threadhouse.retrieval.search import LiveOwner, search_collections
from threadhouse.stores.vectors import open_reader, open_writer

if TYPE_CHECKING:
    from threadhouse.retrieval.ports import VectorSearcher
    from threadhouse.stores.embedders import FastembedEmbedder

UNITS = Collection.INFORMATION_UNITS
TEXTS = {
    "leave-vi": ("vi", "Người lao động làm việc đủ 12 tháng được nghỉ phép 12 ngày hưởng nguyên lương."),
    "refund-vi": ("vi", "Khách hàng được hoàn tiền trong vòng bảy ngày kể từ ngày giao dịch bị lỗi."),
    "fire-vi": ("vi", "Khi có cháy, nhân viên rời tòa nhà theo lối thoát hiểm gần nhất."),
    "leave-en": ("en", "An employee who has worked for a year has twelve days of paid leave."),
    "payout-en": ("en", "Restart the payout worker and check the queue before telling the merchant."),
    "review-en": ("en", "Every change is reviewed by a second engineer before it is merged."),
}  # fmt: skip


@dataclass
class Shelf:
    searcher: VectorSearcher
    owners: Mapping[str, LiveOwner]
    embedder: FastembedEmbedder

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        del collection, physical
        return lambda: {owner_id: self.owners[owner_id] for owner_id in owner_ids}

    def ask(self, question: str) -> list[str]:
        outcome = search_collections(
            prepare_query(question, self.embedder.embed_query),
            Principal("reader", Audience.EMPLOYEE),
            [UNITS],
            policy=open_policy(),
            searcher=self.searcher,
            live=self,
            limit=3,
        )
        return [hit.owner_id for hit in outcome.hits]


@pytest.fixture(scope="module")
def shelf(
    embedder: FastembedEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Shelf, None, None]:
    home: Path = tmp_path_factory.mktemp("shelf")
    vectors = embedder.embed_passages([text for _, text in TEXTS.values()])
    points = [
        VectorPoint(
            UUID(int=number + 1),
            vectors.data[number],
            document_vector(text, TermForm.ACCENTED),
            document_vector(text, TermForm.FOLDED),
            payload_of(name, language),
        )
        for number, (name, (language, text)) in enumerate(TEXTS.items())
    ]
    with open_writer(home=home) as writer:
        physical = writer.ensure_collection(UNITS, embedder.space)
        writer.upsert(physical, embedder.space.space_id, points)
        writer.publish(physical)
    owners = {
        owner_key(UNITS, point.payload)[0]: LiveOwner(
            owner_key(UNITS, point.payload)[1],
            labels_from_metadata(point.payload["metadata"]),  # pyright: ignore[reportArgumentType]
        )
        for point in points
    }
    with open_reader(home=home) as searcher:
        yield Shelf(searcher, owners, embedder)


def payload_of(name: str, language: str) -> dict[str, Json]:
    return {
        "document_id": name,
        "metadata": {
            "title": "", "tags": [], "path": name, "language": language, "logical_unit_id": name,
            "unit_version_id": "1", "visibility": "employee", "readiness": "published",
            "publication_state": "published", "risk_class": "low", "authority": "enacted",
            "lifecycle_stage": "law", "data_classification": "unclassified",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Được nghỉ phép bao nhiêu ngày?", "leave-vi"),
        ("duoc nghi phep bao nhieu ngay", "leave-vi"),
        ("khi nào khách được hoàn tiền", "refund-vi"),
        ("khach hang duoc hoan tien khi nao", "refund-vi"),
        ("nhân viên rời toà nhà khi có cháy", "fire-vi"),
        ("How many days of paid leave?", "leave-en"),
    ],
)
def test_what_is_asked_for_comes_first(shelf: Shelf, question: str, first: str) -> None:
    assert shelf.ask(question)[0] == first


def test_a_question_finds_its_answer_in_the_other_language_among_the_first_three(
    shelf: Shelf,
) -> None:
    assert "leave-vi" in shelf.ask("How many days of paid leave?")
    assert "review-en" in shelf.ask("Ai duyệt thay đổi trước khi merge?")
    assert "payout-en" in shelf.ask("Khởi động lại tiến trình chi trả cho người bán")
