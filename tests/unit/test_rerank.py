"""What each boost rewards, and that every boost reaches every collection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from uuid import UUID

import pytest

from search_house import EVERYTHING, SearchHouse, prepare, publish_house
from threadhouse.retrieval import rerank
from threadhouse.retrieval.models import Collection, DocumentId, Json
from threadhouse.retrieval.rerank import (
    AskedTerms,
    Boost,
    ask_terms,
    basename_strength,
    directory_strength,
    path_strength,
    rerank_results,
    tag_strength,
    title_strength,
)
from threadhouse.retrieval.search import ScoreBreakdown, SearchHit

Strength = Callable[[AskedTerms, Mapping[str, Json]], float]


def strength(measure: Strength, question: str, **metadata: Json) -> float:
    return measure(ask_terms(prepare(question)), metadata)


def hit(
    collection: Collection = Collection.INFORMATION_UNITS,
    *,
    fused: float = 0.5,
    document_id: str = "document",
    char_start: int = 0,
    number: int = 1,
    **metadata: Json,
) -> SearchHit:
    return SearchHit(
        collection=collection,
        point_id=UUID(int=number),
        document_id=DocumentId(document_id),
        owner_id="owner",
        version_key="version",
        chunk_index=0,
        char_start=char_start,
        char_end=char_start + 1,
        metadata=metadata,
        score=fused,
        breakdown=ScoreBreakdown(0.8, None, None, fused, {}, fused),
    )


@pytest.mark.parametrize(
    ("measure", "question", "metadata", "expected"),
    [
        (title_strength, "Nghỉ hằng năm", {"title": "Nghỉ hằng năm"}, 1.0),
        (title_strength, "nghi hang nam", {"title": "Nghỉ hằng năm"}, 1.0),
        # Pairs count: the same words in another order are another title.
        (title_strength, "năm hằng nghỉ", {"title": "Nghỉ hằng năm"}, 0.0),
        # "nghĩ" is not "nghỉ" to someone who types marks.
        (title_strength, "nghĩ hằng năm", {"title": "Nghỉ hằng năm"}, 0.0),
        (title_strength, "Điều kiện hưởng lương hưu", {"title": "Điều kiện hưởng trợ cấp"}, 0.0),
        (title_strength, "hòa giải", {"title": "hoà giải"}, 1.0),
        (title_strength, "anything", {"title": ""}, 0.0),
        (title_strength, "anything", {}, 0.0),
        (tag_strength, "chính sách hoàn tiền", {"tags": ["hoàn tiền", "payments"]}, 1.0),
        (tag_strength, "chính sách hoàn tiền", {"tags": ["payments"]}, 0.0),
        (path_strength, "Đối tượng áp dụng, 39/2014/TT-BGTVT", {"path": "39/2014/TT-BGTVT"}, 1.0),
        (path_strength, "anything", {"path": ""}, 0.0),
        (basename_strength, "what does PEP 484 say", {"path": "peps/pep-0484.rst"}, 1.0),
        (basename_strength, "what does PEP 48 say", {"path": "peps/pep-0484.rst"}, 0.0),
        (directory_strength, "incident runbooks", {"path": "runbooks/payout.md"}, 1.0),
        (directory_strength, "payout", {"path": "runbooks/payout.md"}, 0.0),
        (directory_strength, "payout", {"path": "payout.md"}, 0.0),
    ],
)
def test_strength_of_a_boost(
    measure: Strength, question: str, metadata: dict[str, Json], expected: float
) -> None:
    assert strength(measure, question, **metadata) == expected


def test_a_longer_question_that_holds_the_title_gives_it_less() -> None:
    title = "Quy chế hoàn tiền"
    exact, around = (
        strength(title_strength, question, title=title)
        for question in (title, f"{title} áp dụng cho khách hàng nào")
    )
    assert exact > around > 0


def test_a_hit_with_a_boost_ranks_before_one_without() -> None:
    ranked = rerank_results(
        prepare("Nghỉ hằng năm"), [hit(number=1), hit(number=2, title="Nghỉ hằng năm")]
    )
    assert [h.point_id.int for h in ranked] == [2, 1]


def test_switched_off_reranking_orders_by_the_fused_score_and_lists_no_boost() -> None:
    better, titled = hit(number=1, fused=0.51), hit(number=2, title="Nghỉ hằng năm")
    ranked = rerank_results(prepare("Nghỉ hằng năm"), [titled, better], enabled=False)
    assert [h.point_id.int for h in ranked] == [1, 2]
    assert [(dict(h.breakdown.boosts), h.score) for h in ranked] == [({}, 0.51), ({}, 0.5)]


def test_a_legacy_and_a_unit_hit_of_one_score_tie_the_same_way_whatever_their_collection() -> None:
    """Who is first depends on document and place; swapping the collections changes nothing."""
    legacy, unit = Collection.PRODUCTION_DOCUMENTS, Collection.INFORMATION_UNITS
    for first, second in ((legacy, unit), (unit, legacy)):
        hits = [
            hit(second, document_id="b", number=1),
            hit(first, document_id="a", char_start=9, number=2),
            hit(second, document_id="a", char_start=3, number=3),
        ]
        for given in (hits, hits[::-1]):
            ranked = rerank_results(prepare("tie"), given)
            assert [(h.document_id, h.char_start) for h in ranked] == [("a", 3), ("a", 9), ("b", 0)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[SearchHouse, None, None]:
    published = publish_house(tmp_path_factory.mktemp("rerank"), points=60)
    yield published
    published.searcher.close()


def test_a_new_boost_reaches_every_collection(
    house: SearchHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered in one place, seen on every hit of every collection that the vocabulary knows."""
    probe = Boost("probe", 0.125, lambda _asked, _metadata: 1.0)
    monkeypatch.setattr(rerank, "BOOSTS", (*rerank.BOOSTS, probe))
    assert set(EVERYTHING) == set(Collection)
    for collection in Collection:
        hits = house.ask("nghỉ phép năm", [collection]).hits
        assert hits, collection
        assert {h.breakdown.boosts["probe"] for h in hits} == {0.125}


def test_a_boost_is_the_same_for_the_same_metadata_in_every_collection() -> None:
    question = prepare("nghỉ phép năm trong runbooks")
    boosts = {
        tuple(
            rerank_results(
                question, [hit(collection, title="nghỉ phép", path="runbooks/a.md", tags=["năm"])]
            )[0].breakdown.boosts.items()
        )
        for collection in Collection
    }
    assert len(boosts) == 1
