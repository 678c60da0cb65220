"""The leak probe finds each enforcer that is switched off, on its own, and leaves nothing behind.

Method: a real Postgres and the embedded engine; one enforcer at a time is replaced by one that lets everything pass, as a broken
one would. Only the probe that asks this enforcer alone has to fail; that the others still protect the reader is shown beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from delivery_house import rows
from fixtures_canaries import asked_as
from threadhouse.retrieval import packs, search
from threadhouse.retrieval.audience import FILTERED_FIELDS, AudiencePolicy, allowed_values
from threadhouse.retrieval.errors import StoreLockedError
from threadhouse.retrieval.leak_canaries import OPEN, PathOutcome
from threadhouse.retrieval.models import (
    AllOf,
    Audience,
    InformationUnit,
    Principal,
    ThreadMembership,
)
from threadhouse.retrieval.packs import PackUnit
from threadhouse.stores import leak_probe, live_owners, pack_delivery, thread_signals
from threadhouse.stores.leak_probe import (
    CanaryGround,
    planted_canaries,
    probe_centroids,
    probe_last_check,
    probe_packs,
    probe_read_back,
    probe_reports,
    probe_row_security,
    probe_search,
    probe_stores,
    probe_thread_signals,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

EVERYTHING = {
    "visibility": ["public", "partner", "employee", "internal", "restricted"],
    "readiness": ["draft", "under_review", "approved", "published", "superseded"],
    "publication_state": ["unpublished", "published", "withdrawn"],
    "risk_class": ["low", "standard", "high"],
    "authority": ["enacted", "draft", "runtime"],
    "lifecycle_stage": ["law", "design", "code", "test", "report", "incident"],
    "data_classification": ["unclassified", "confidential", "secret", "blocked"],
}


def unsound(outcomes: Iterator[PathOutcome]) -> dict[str, set[str]]:
    """Readers by path of what is not sound."""
    found: dict[str, set[str]] = {}
    for each in outcomes:
        if not each.is_sound:
            found.setdefault(each.path, set()).add(each.reader)
    return found


def leaks(outcomes: Iterator[PathOutcome]) -> set[str]:
    """Paths on which something came out that must not."""
    return {each.path for each in outcomes if each.leaked}


def test_every_path_gives_every_reader_exactly_what_it_sees(ground: CanaryGround) -> None:
    outcomes = list(probe_stores(ground))
    assert unsound(iter(outcomes)) == {}
    # A lane's report is the one path that must show nothing at all.
    for path in {each.path for each in outcomes} - {"health report"}:
        readers = {each.reader for each in outcomes if each.path == path and each.must_see}
        assert set(Audience) <= readers, path


def test_nothing_of_a_probe_is_left_and_a_second_one_waits_its_turn(
    database: Database, tmp_path: Path
) -> None:
    """What a killed probe left behind in the home is cleared away by the next one."""
    counted = """
        select (select count(*) from public.production_document), (select count(*) from public.tac_logical_unit)
             , (select count(*) from public.semantic_thread), (select count(*) from nao.vector_projection)
             , (select count(*) from nao.change_log), (select count(*) from nao.thread_context_pack_cache)
             , (select count(*) from nao.search_gap_signal), (select count(*) from nao.retrieval_metric_aggregate)"""
    before = rows(database, counted)
    left = tmp_path / "leak-probe-killed"
    (left / "qdrant").mkdir(parents=True)
    settings = Settings(threadhouse_home=tmp_path)
    with planted_canaries(database, settings) as ground:
        assert not left.exists()
        list(probe_stores(asked_as(ground)))
        assert rows(database, counted) == before  # nobody else ever sees them
        with (
            pytest.raises(StoreLockedError, match="leak probe is being run by"),
            planted_canaries(database, settings),
        ):
            pass
    assert rows(database, counted) == before
    assert list(tmp_path.iterdir()) == []


# Each enforcer off in turn: the probe of it alone fails, and what a reader gets is still protected by the next one.


def test_row_level_security_off_is_noticed_and_the_statements_still_protect(
    ground: CanaryGround,
) -> None:
    with ground.database.lend() as connection:
        connection.execute(
            "create or replace function cong.allowed_now() returns integer language sql stable as 'select 134217727'"
        )
    assert leaks(probe_row_security(ground)) == {"row-level security"}
    assert leaks(probe_thread_signals(ground)) == set()
    assert leaks(probe_last_check(ground)) == set()


def test_a_reader_who_keeps_the_rights_of_the_login_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leak_probe, "begin_reading", lambda *_: None)
    assert leaks(probe_row_security(ground)) == {"row-level security"}


def test_vector_filter_off_is_noticed_and_the_read_back_still_protects(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf())
    assert leaks(probe_search(asked_as(ground))) == {
        "vector filter, dense",
        "vector filter, bm25_accented",
        "vector filter, bm25_folded",
    }


@pytest.mark.parametrize("name", FILTERED_FIELDS)
def test_one_forgotten_condition_of_the_vector_filter_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = search.vector_filter

    def forgetful(principal: Principal, policy: AudiencePolicy) -> AllOf:
        return AllOf(
            tuple(x for x in real(principal, policy).allowed if x[0] != f"metadata.{name}")
        )

    monkeypatch.setattr(search, "vector_filter", forgetful)
    assert "vector filter, dense" in leaks(probe_search(asked_as(ground)))


def test_a_filter_that_lets_nothing_pass_is_no_success(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf((("metadata.lane", ("x",)),)))
    found = unsound(probe_search(ground))
    assert found["search, fused"] >= set(Audience)


def test_read_back_off_is_noticed(ground: CanaryGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, what vectors still say of a unit that was hidden since would be the last word."""
    monkeypatch.setattr(live_owners, "labels_from_words", lambda *_: OPEN)
    assert leaks(probe_read_back(ground)) == {"read-back"}
    assert leaks(probe_search(asked_as(ground))) == {"search, fused"}
    # The statement itself finds no unit that the lane sees; a thread that its own flags close is closed by them alone.
    assert leaks(probe_centroids(ground)) == {"centroids"}


def test_a_search_that_ignores_the_read_back_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "sight_of", lambda *_: lambda _: True)
    assert leaks(probe_search(asked_as(ground))) == {"search, fused"}


def test_rights_off_in_the_statements_of_thread_signals_are_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_signals, "allowed_values", lambda *_: EVERYTHING)
    assert leaks(probe_thread_signals(ground)) >= {
        "thread names and words",
        "thread surroundings",
    }


# Every authority may be seen by every lane, and a missing one hides in any case, so there is nothing to forget.
@pytest.mark.parametrize("name", [name for name in FILTERED_FIELDS if name != "authority"])
def test_the_last_check_that_forgets_one_label_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def forgetful(principal: Principal, policy: AudiencePolicy) -> Mapping[str, Collection[str]]:
        return {**allowed_values(principal, policy), name: EVERYTHING[name]}

    monkeypatch.setattr(pack_delivery, "allowed_values", forgetful)
    assert leaks(probe_last_check(asked_as(ground))) == {"last check"}


def test_the_database_still_protects_what_the_last_check_forgets(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_delivery, "allowed_values", lambda *_: EVERYTHING)
    delivery = pack_delivery.PackDelivery(ground.database.connections)
    everything = leak_probe.pack_of_everything(ground)
    for name, reader in ground.readers.items():
        with delivery.begin() as out:
            hidden = out.hidden_in(everything, reader, ground.policy)
        planted = {*ground.house.units, *ground.house.documents}
        assert planted - set(hidden) == ground.sight(name).content


def test_packs_built_without_the_predicate_are_noticed_and_the_last_check_still_protects(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "unit_labels", lambda _: OPEN)
    monkeypatch.setattr(packs, "_pack_unit", _as_if_open(packs._pack_unit))  # noqa: SLF001
    built = [o for o in _until_leak(probe_packs(ground)) if o.leaked]
    assert {each.path for each in built} == {"pack, built"}


def test_threads_whose_own_flags_no_longer_close_them_are_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "flags_leave_open", lambda *_: True)
    assert "pack, built" in leaks(_until_leak(probe_packs(asked_as(ground))))


def test_links_to_what_is_hidden_are_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the far ends of links: the units of the packs are decided by another call of the same predicate."""
    real = packs._related_links  # noqa: SLF001
    monkeypatch.setattr(
        packs,
        "_related_links",
        lambda d, shown, p, policy, _: real(d, shown, p, policy, lambda _: True),
    )
    assert "pack, built" in leaks(_until_leak(probe_packs(asked_as(ground))))


def test_gaps_at_stages_that_a_reader_does_not_see_are_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = packs._known_gaps  # noqa: SLF001
    stages = frozenset(EVERYTHING["lifecycle_stage"])
    monkeypatch.setattr(packs, "_known_gaps", lambda expected, _: real(expected, stages))
    assert "pack, built" in leaks(_until_leak(probe_packs(asked_as(ground))))


def test_a_report_of_a_lane_that_names_threads_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = ground.house.hub
    monkeypatch.setattr(leak_probe, "render_markdown", lambda _: f"worst thread: {hub}")
    assert leaks(probe_reports(ground)) == {"health report"}


def _as_if_open(real: Callable[..., PackUnit]) -> Callable[..., PackUnit]:
    def pack_unit(
        unit: InformationUnit, membership: ThreadMembership, is_suspect: bool
    ) -> PackUnit:
        return real(replace(unit, flags=OPEN.flags), membership, is_suspect)

    return pack_unit


def _until_leak(outcomes: Iterator[PathOutcome]) -> Iterator[PathOutcome]:
    """A stored pack that holds what it must not is stopped by the last check, as it should be."""
    try:
        yield from outcomes
    except pack_delivery.Leak:
        return


def test_a_probe_that_does_not_come_to_its_end_is_a_fault(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise pack_delivery.Leak(leak_probe.pack_of_everything(ground), ["x"])

    monkeypatch.setattr(leak_probe, "build_pack", stopped)
    faults = [each for each in leak_probe.probe_stores(asked_as(ground)) if not each.is_sound]
    assert [(fault.path, fault.missed) for fault in faults] == [("probe_packs", ("Leak",))]
