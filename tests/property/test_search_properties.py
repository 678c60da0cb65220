"""The one search function on the embedded engine, against plain arithmetic over all points."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counting_embedder import HashEmbedder
from search_house import CONTENT, EVERYTHING, WORDS, SearchHouse, open_policy, publish_house
from threadhouse.retrieval.audience import visible
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    Collection,
    DataClassification,
    Flags,
    LifecycleStage,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.search import SearchHit

QUESTIONS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
ASKED = st.sets(st.sampled_from(EVERYTHING), min_size=1).map(sorted)
PRINCIPALS = st.builds(
    Principal, st.just("someone"), st.sampled_from(Audience),
    high_risk_consents=st.sampled_from([frozenset[str](), frozenset({"*"})]),
)  # fmt: skip
VOCABULARIES = {
    "visibility": Visibility,
    "readiness": Readiness,
    "publication_state": PublicationState,
    "risk_class": RiskClass,
    "authority": Authority,
    "lifecycle_stage": LifecycleStage,
    "data_classification": DataClassification,
}
POLICIES = st.fixed_dictionaries(
    {name: st.frozensets(st.sampled_from(words)) for name, words in VOCABULARIES.items()}
).map(lambda allowed: open_policy(**allowed)) | st.just(open_policy())  # fmt: skip
# A fixture is shared by the examples of one test on purpose: publishing is slow and the points never change.
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Generator[SearchHouse, None, None]:
    house = publish_house(tmp_path_factory.mktemp("search"))
    yield house
    house.searcher.close()


@pytest.fixture
def house(published: SearchHouse) -> SearchHouse:
    """Owners may be changed; the points are shared."""
    return SearchHouse(published.searcher, published.placed, dict(published.owners))


def ids(hits: Sequence[SearchHit]) -> list[object]:
    return [hit.point_id for hit in hits]


@SHARED
@given(question=QUESTIONS, asked=ASKED, principal=PRINCIPALS, policy=POLICIES)
def test_exactly_what_a_principal_may_see_is_found_and_cosines_are_exact(
    house: SearchHouse, question: str, asked: list[Collection], principal: Principal, policy: object
) -> None:
    """Fewer points than candidates, so nothing but access decides what is found."""
    outcome = house.ask(question, asked, principal=principal, policy=policy, one_per="owner")  # pyright: ignore[reportArgumentType]
    may_see = {
        (point.collection, point.owner_id)
        for point in house.placed.values()
        if point.collection in asked
        and visible(point.labels, principal, policy)  # pyright: ignore[reportArgumentType]
        and (
            point.collection is not Collection.THREAD_CENTROIDS
            or point.owner_id.endswith(f"/{principal.audience}")
        )
    }
    assert {(hit.collection, hit.owner_id) for hit in outcome.hits} == may_see
    assert (outcome.filtered, outcome.searched_again) == (0, False)


@SHARED
@given(question=QUESTIONS)
def test_the_cosine_of_a_hit_is_the_cosine(house: SearchHouse, question: str) -> None:
    embedder = HashEmbedder()
    asked = embedder.embed_query(question).data[0]
    stored = {
        point.point_id: point.dense
        for point in house.searcher.scroll(Collection.INFORMATION_UNITS, with_vectors=True)
    }
    for hit in house.ask(question, [Collection.INFORMATION_UNITS]).hits:
        vector = stored[hit.point_id]
        assert vector is not None
        assert hit.breakdown.dense == pytest.approx(float(np.dot(asked, vector)), abs=1e-4)


@SHARED
@given(question=QUESTIONS, asked=ASKED, enabled=st.booleans())
def test_every_breakdown_adds_up_and_hits_come_in_order(
    house: SearchHouse, question: str, asked: list[Collection], enabled: bool
) -> None:
    hits = house.ask(question, asked, rerank_enabled=enabled).hits
    for hit in hits:
        parts = hit.breakdown
        assert 0 <= parts.fused <= 1 + 1e-9
        assert parts.final == hit.score == pytest.approx(parts.fused + sum(parts.boosts.values()))
        assert bool(parts.boosts) == enabled
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@SHARED
@given(question=QUESTIONS, asked=ASKED, data=st.data())
def test_one_hit_a_document_is_its_best_one(
    house: SearchHouse, question: str, asked: list[Collection], data: st.DataObject
) -> None:
    limit = data.draw(st.integers(0, 30))
    every_owner = house.ask(question, asked, one_per="owner").hits
    one_each = house.ask(question, asked, one_per="document", limit=limit).hits
    best: dict[str, SearchHit] = {}
    for hit in every_owner:
        best.setdefault(hit.document_id, hit)
    assert ids(one_each) == ids(list(best.values()))[:limit]


@SHARED
@given(question=QUESTIONS, order=st.permutations(EVERYTHING))
def test_the_order_in_which_collections_are_named_changes_nothing(
    house: SearchHouse, question: str, order: list[Collection]
) -> None:
    assert ids(house.ask(question, order).hits) == ids(house.ask(question, EVERYTHING).hits)


@SHARED
@given(question=QUESTIONS)
def test_collections_answer_together_what_they_answer_separately(
    house: SearchHouse, question: str
) -> None:
    together = house.ask(question, CONTENT, one_per="owner").hits
    separately = {
        hit.point_id for one in CONTENT for hit in house.ask(question, [one], one_per="owner").hits
    }
    assert {hit.collection for hit in together} == set(CONTENT)
    # The better chunk of an owner can be another one beside more neighbours, so owners are compared.
    owners = {house.placed[hit.point_id].owner_id for hit in together}
    assert owners == {house.placed[point].owner_id for point in separately}


@SHARED
@given(question=QUESTIONS, data=st.data())
def test_a_right_taken_away_holds_from_the_next_question_on(
    house: SearchHouse, question: str, data: st.DataObject
) -> None:
    hits = house.ask(question, one_per="owner").hits
    revoked = data.draw(st.sampled_from(hits))
    key = (revoked.collection, revoked.owner_id)
    before = house.owners[key]
    house.owners[key] = replace(before, labels=replace(before.labels, flags=Flags()))
    after = house.ask(question, one_per="owner")
    house.owners[key] = before
    assert key not in {(hit.collection, hit.owner_id) for hit in after.hits}
    assert len(after.hits) == len(hits) - 1
    assert after.filtered > 0
    assert not after.searched_again


def test_a_version_that_moved_on_is_dropped_and_asked_for_once_more(house: SearchHouse) -> None:
    hit = house.ask("nghỉ phép năm", one_per="owner").hits[0]
    key = (hit.collection, hit.owner_id)
    house.owners[key] = replace(house.owners[key], version_key="a newer one")
    house.reads.clear()
    outcome = house.ask("nghỉ phép năm", one_per="owner")
    assert outcome.searched_again
    assert key not in {(other.collection, other.owner_id) for other in outcome.hits}
    assert house.reads == [*CONTENT, *CONTENT]


def test_what_the_source_no_longer_has_is_dropped_without_asking_again(house: SearchHouse) -> None:
    hit = house.ask("nghỉ phép năm", one_per="owner").hits[0]
    del house.owners[hit.collection, hit.owner_id]
    outcome = house.ask("nghỉ phép năm", one_per="owner")
    assert (hit.collection, hit.owner_id) not in {(h.collection, h.owner_id) for h in outcome.hits}
    assert not outcome.searched_again


def test_labels_are_read_back_in_one_round_trip_a_collection(house: SearchHouse) -> None:
    house.ask("nghỉ phép năm", EVERYTHING)
    assert house.reads == list(EVERYTHING)
