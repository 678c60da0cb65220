"""The canaries cover what they are meant to cover, and the verdict on what came out of a path is right both ways.

Method: the house of the shipped policy; coverage is counted, not assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import combinations, product

import pytest

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    AudiencePolicy,
    Labels,
    LanePolicy,
    lane_principal,
)
from threadhouse.retrieval.leak_canaries import (
    DIVISIONS,
    FRESH,
    OPEN,
    STALE,
    TURNS,
    VISIBLE_IN_A_FLOCK,
    CanaryDocument,
    CanaryHouse,
    CanaryUnit,
    PathOutcome,
    ProbeReport,
    fresh_flocks,
    judge,
    marks_in,
    plan_canaries,
    probed_readers,
    sight_of_canaries,
    table_of,
)
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    Flags,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)
from threadhouse.retrieval.search import CANDIDATES

WORDS: dict[str, Sequence[object]] = {
    "visibility": [*Visibility, None],
    "readiness": [*Readiness, None],
    "publication_state": [*PublicationState, None],
    "risk_class": [*RiskClass, None],
    "authority": [*Authority, None],
    "lifecycle_stage": list(LifecycleStage),
    "data_classification": list(DataClassification),
}


@pytest.fixture(scope="module")
def policy() -> AudiencePolicy:
    """The shipped lists, with one permission."""

    def lane(seen: str, ready: str, out: str, **grants: str) -> LanePolicy:
        return LanePolicy(
            *(
                frozenset(words.split())
                for words in (
                    seen,
                    ready,
                    out,
                    "low standard",
                    "enacted draft runtime",
                    "law design code test report",
                    "unclassified",
                )
            ),
            permission_grants={
                f"read:{name}": {name: frozenset(words.split())} for name, words in grants.items()
            },
        )

    return AudiencePolicy(
        1,
        {
            Audience.CUSTOMER: lane("public", "published", "published"),
            Audience.PARTNER: lane("public partner", "published", "published"),
            Audience.EMPLOYEE: lane(
                "public partner employee", "approved published", "unpublished published"
            ),
            Audience.AI_AGENT: lane(
                "public partner employee internal",
                "approved published",
                "unpublished published",
                readiness="draft under_review superseded",
                visibility="restricted",
            ),
        },
    )


@pytest.fixture(scope="module")
def house() -> CanaryHouse:
    return plan_canaries("0123abcd")


def test_every_combination_of_the_five_flags_is_planted_as_a_unit(house: CanaryHouse) -> None:
    names = [each.name for each in fields(Flags)]
    planted = {tuple(unit.labels.value(name) for name in names) for unit in house.units.values()}
    assert planted == set(product(*(WORDS[name] for name in names)))


@pytest.mark.parametrize(("one", "other"), list(combinations(FILTERED_FIELDS, 2)))
def test_every_two_values_of_two_labels_meet_in_a_unit(
    house: CanaryHouse, one: str, other: str
) -> None:
    met = {(unit.labels.value(one), unit.labels.value(other)) for unit in house.units.values()}
    assert met == set(product(WORDS[one], WORDS[other]))


def near_misses(canaries: Iterable[CanaryUnit | CanaryDocument]) -> list[object]:
    """Changes of the open labels in one or two places that none of the canaries has."""
    planted = {each.labels for each in canaries}
    scales = {**WORDS, "lifecycle_stage": [*LifecycleStage, None]}
    changes = [(n, w) for n, words in scales.items() for w in words if w != OPEN.value(n)]
    wanted = [{one[0]: one[1], two[0]: two[1]} for one, two in product(changes, repeat=2)]
    return [change for change in wanted if _changed(change) not in planted]


def test_every_near_miss_is_planted_as_a_document(house: CanaryHouse) -> None:
    """A rule that forgets a label lets out what differs in it alone; one that takes two for alternatives, what has both."""
    assert near_misses(d for d in house.documents.values() if not d.is_stale) == []


def test_every_near_miss_is_planted_stale(house: CanaryHouse) -> None:
    stale = [e for e in (*house.units.values(), *house.documents.values()) if e.is_stale]
    assert near_misses(stale) == []
    for kind in (CanaryUnit, CanaryDocument):
        singles = {each.labels for each in stale if isinstance(each, kind)}
        assert singles >= {
            _changed({name: word})
            for name in FILTERED_FIELDS
            for word in WORDS[name]
            if word != OPEN.value(name)
        }


def test_vectors_of_stale_canaries_say_that_everybody_sees_them(house: CanaryHouse) -> None:
    stale = [e for e in (*house.units.values(), *house.documents.values()) if e.is_stale]
    assert stale
    assert {each.published for each in stale} == {OPEN}
    assert OPEN not in {each.labels for each in stale}


def test_one_question_never_has_to_bring_back_more_than_a_search_fetches(
    house: CanaryHouse, policy: AudiencePolicy
) -> None:
    """Or a canary that leaks could be crowded out by those that the reader sees."""
    for reader in probed_readers(policy).values():
        sight = sight_of_canaries(house, reader, policy)
        for kind in (house.units, house.documents):
            for flock in (*fresh_flocks(house, sight.published), *STALE):
                shown = [
                    mark
                    for mark, each in kind.items()
                    if flock in house.flocks_of(each)
                    and mark in sight.published
                    and mark in house.searched
                ]
                assert len(shown) < CANDIDATES


def test_the_flocks_of_a_reader_ask_for_everything_fresh(
    house: CanaryHouse, policy: AudiencePolicy
) -> None:
    for reader in probed_readers(policy).values():
        flocks = set(fresh_flocks(house, sight_of_canaries(house, reader, policy).published))
        fresh = [e for e in (*house.units.values(), *house.documents.values()) if not e.is_stale]
        assert [each for each in fresh if flocks.isdisjoint(house.flocks_of(each))] == []


def test_who_sees_little_is_asked_about_all_of_it_at_once(house: CanaryHouse) -> None:
    assert fresh_flocks(house, frozenset({house.open_unit})) == FRESH[:1]


def test_a_reader_who_sees_nearly_everything_takes_more_questions(policy: AudiencePolicy) -> None:
    words = {name: frozenset(str(word) for word in WORDS[name] if word) for name in FILTERED_FIELDS}
    lane = replace(policy.lanes[Audience.CUSTOMER], **words)
    sees_all = AudiencePolicy(1, {Audience.CUSTOMER: lane})
    house = plan_canaries("0123abcd")
    sight = sight_of_canaries(house, lane_principal(Audience.CUSTOMER), sees_all)
    flocks = fresh_flocks(house, sight.published)
    found = [m for m in sight.documents if not house.documents[m].is_stale]
    assert flocks[0].parts in DIVISIONS[1:]
    assert len(found) / len(flocks) <= VISIBLE_IN_A_FLOCK


def test_a_round_of_nights_asks_the_engine_for_every_combination() -> None:
    houses = [plan_canaries("0123abcd", turn) for turn in range(TURNS)]
    # What only packs are to show, and never a search, has no vectors on any night.
    race = houses[0].race
    assert frozenset[str]().union(*(house.searched for house in houses)) == {
        *houses[0].units,
        *houses[0].documents,
    } - {race.kept, race.hidden, *race.built}


def test_there_is_something_to_lose_for_every_reader(
    house: CanaryHouse, policy: AudiencePolicy
) -> None:
    """Each withdraws a unit from a pack, and a unit and a document from a search, that nobody withdrew before."""
    race = house.race
    assert len(probed_readers(policy)) <= min(map(len, (race.built, race.found, race.documents)))
    assert len({*race.built, *race.found, *race.documents}) == 3 * len(race.built)


def test_every_lane_sees_some_canaries_and_not_others(
    house: CanaryHouse, policy: AudiencePolicy
) -> None:
    for name, reader in probed_readers(policy).items():
        sight = sight_of_canaries(house, reader, policy)
        for seen, planted in (
            (sight.units, house.units),
            (sight.documents, house.documents),
            (sight.threads, house.threads),
        ):
            assert 0 < len(seen) < len(planted), name


def test_a_mark_more_is_a_leak_and_a_mark_less_is_a_miss() -> None:
    expected = frozenset({"a", "b"})
    found = judge("customer", "dense", 9, ["a", "x"], allowed=expected, must_see=expected)
    assert (found.leaked, found.missed, found.is_sound) == (("x",), ("b",), False)
    assert judge("customer", "dense", 9, ["a", "b"], allowed=expected, must_see=expected).is_sound


def test_what_is_allowed_need_not_come_out() -> None:
    assert judge("c", "p", 1, [], allowed=frozenset({"a"}), must_see=frozenset()).is_sound


def test_outcomes_of_one_path_and_reader_make_one_row() -> None:
    one = judge("customer", "pack", 2, ["a"], allowed=frozenset(), must_see=frozenset())
    other = judge("customer", "pack", 3, [], allowed=frozenset(), must_see=frozenset({"b"}))
    (row,) = table_of([one, other])
    assert (row.planted, row.seen, row.must_see) == (5, 1, 1)
    assert (row.leaked, row.missed) == (("a",), ("b",))


def test_marks_are_found_in_any_text() -> None:
    assert marks_in('{"id": "cnry0123abcdu0001", "x": "CANARY/cnry0123abcdt0002"}') == {
        "cnry0123abcdu0001",
        "cnry0123abcdt0002",
    }


@pytest.mark.parametrize("nonce", ["", "0123abc", "0123ABCD", "0123abcd0"])
def test_a_nonce_that_would_break_the_marks_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        plan_canaries(nonce)


def _changed(change: dict[str, object]) -> Labels:
    words = {name: OPEN.value(name) for name in FILTERED_FIELDS} | change
    flags = Flags(*(words[each.name] for each in fields(Flags)))  # pyright: ignore[reportArgumentType]
    return Labels(flags, words["lifecycle_stage"], words["data_classification"])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("leaked", "missed", "only_missed"),
    [((), (), False), (("a",), (), False), ((), ("b",), True), (("a",), ("b",), False)],
)
def test_only_what_was_missed_is_worth_asking_again(
    leaked: tuple[str, ...], missed: tuple[str, ...], only_missed: bool
) -> None:
    outcome = PathOutcome("customer", "last check", 9, 2, 2, leaked, missed)
    missing_elsewhere = PathOutcome("partner", "last check", 9, 2, 1)
    assert ProbeReport((outcome, missing_elsewhere), 0.1).only_missed is only_missed
