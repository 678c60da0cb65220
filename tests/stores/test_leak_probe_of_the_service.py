"""The probe of the whole query path: sound on a sound hub, counted nowhere, and not fooled when an enforcer is off.

Method: a real Postgres, the embedded engine, the real service and the tool that agents call.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import date
from pathlib import Path

import pytest

from content_house import ContentHouse
from delivery_house import rows
from fixtures_canaries import asked_as
from fixtures_postgres import as_url, new_database
from hub_rows import add_document, add_unit
from threadhouse.retrieval import fallback, packs, search
from threadhouse.retrieval.audience import VOCABULARY
from threadhouse.retrieval.models import AllOf, Audience, Principal, ThreadId
from threadhouse.retrieval.packs import ContextPack
from threadhouse.serving.leak_probe import probe_published, probe_service
from threadhouse.stores import pack_delivery
from threadhouse.stores.discarded_transaction import DiscardedConnection
from threadhouse.stores.leak_probe import CanaryGround
from threadhouse.stores.pack_delivery import Delivery
from threadhouse.stores.pack_store import look_up_pack
from threadhouse.stores.postgres import Database
from threadhouse.stores.security_events import SecurityEvent, list_security_events
from threadhouse.stores.settings import Settings

DAY = date(2026, 11, 30)


@pytest.fixture(scope="module")
def house(
    postgres_server: Database, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ContentHouse, None, None]:
    """Two public units and four that only some see, published to the embedded engine. Events add up."""
    with new_database(postgres_server, template_database) as database:
        house = ContentHouse(database, tmp_path_factory.mktemp("published"), engine="edge")
        with house.connect() as connection:
            for number, visibility in enumerate(
                ("public", "public", "partner", "employee", "internal", "restricted")
            ):
                add_document(connection, f"d{number}", visibility=visibility)
                add_unit(
                    connection, f"u{number}", f"d{number}", f"Nội dung số {number} của quy định."
                )
        house.publish()
        house.refresh_centroids()
        yield house


@pytest.fixture
def house_without_roles(house: ContentHouse) -> Generator[ContentHouse, None, None]:
    """Its database keeps nothing back, and does again afterwards."""
    ((kept,),) = house.rows("select pg_get_functiondef('cong.allowed_now()'::regprocedure)")
    house.change(
        "create or replace function cong.allowed_now() returns integer language sql stable as 'select 134217727'"
    )
    yield house
    house.change(kept)


def settings_of(house: ContentHouse) -> Settings:
    return Settings.model_validate(
        {"threadhouse_home": house.home, "database_url": as_url(house.database)}
    )


def test_real_hidden_units_do_not_come_back_and_nothing_is_counted(house: ContentHouse) -> None:
    report = probe_published(settings_of(house), DAY)
    assert report.faults == ()
    planted = {each.reader: each.planted for each in report.outcomes}
    assert planted == {"customer": 4, "partner": 3, "employee": 2, "ai_agent": 1}
    assert all(each.seen for each in report.outcomes)
    assert rows(
        house.database,
        """select (select count(*) from nao.retrieval_metric_event), (select count(*) from nao.delivered_pack)
                , (select count(*) from nao.search_gap_signal), (select count(*) from nao.thread_context_pack_cache)""",
    ) == [(0, 0, 0, 0)]


def test_with_one_enforcer_off_no_hidden_unit_comes_back(
    house: ContentHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = events(house)
    for module, name, broken in (
        (search, "vector_filter", lambda *_: AllOf()),
        (search, "sight_of", lambda *_: lambda _: True),
        (fallback, "visible", lambda *_: True),
        (pack_delivery, "_allowed", lambda *_: {f: sorted(w) for f, w in VOCABULARY.items()}),
    ):
        with monkeypatch.context() as only:
            only.setattr(module, name, broken)
            assert probe_published(settings_of(house), DAY).faults == (), name
    assert events(house) == before


def test_a_real_hidden_unit_that_comes_back_is_a_security_event(
    house_without_roles: ContentHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All enforcers off at once, the database's as well."""
    house = house_without_roles
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf())
    monkeypatch.setattr(search, "sight_of", lambda *_: lambda _: True)
    monkeypatch.setattr(fallback, "visible", lambda *_: True)
    everything = {name: sorted(words) for name, words in VOCABULARY.items()}
    monkeypatch.setattr(pack_delivery, "_allowed", lambda *_: everything)
    before = len(events(house))
    report = probe_published(settings_of(house), DAY)
    assert {each.reader for each in report.faults} == set(Audience)
    assert len(events(house)) - before == len(report.faults)
    assert rows(house.database, "select count(*) from nao.retrieval_metric_event") == [(0,)]


def test_a_hub_without_vectors_has_nothing_to_probe(database: Database, tmp_path: Path) -> None:
    report = probe_published(settings_of(ContentHouse(database, tmp_path)), DAY)
    assert (report.outcomes, report.remarks) == ((), ("nothing is published yet",))


def test_the_service_shows_every_reader_its_canaries_and_no_other(ground: CanaryGround) -> None:
    outcomes = list(probe_service(ground))
    assert [each for each in outcomes if not each.is_sound] == []
    asked = {each.reader for each in outcomes if each.path == "tools, thread" and each.must_see}
    assert asked >= set(Audience)


def test_a_service_that_shows_a_hidden_thread_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The title of a thread that its own flags close, in the facts that explain an answer."""
    with ground.database.lend() as connection:
        connection.execute(
            "create or replace function cong.leaves_open(visibility text, readiness text, publication_state text, risk_class text"
            ", authority text, allowed integer) returns boolean language sql immutable as 'select true'"
        )
    monkeypatch.setattr(packs, "flags_leave_open", lambda *_: True)
    leaked = {each.path for each in probe_service(asked_as(ground)) if each.leaked}
    assert "service, hidden thread" in leaked


def test_a_service_that_finds_nothing_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf((("metadata.lane", ("x",)),)))
    missed = {each.path for each in probe_service(asked_as(ground)) if each.missed}
    assert "service, raw search" in missed


# The last check, left out on each way out in turn. Nothing else stands between what these probes plant and the reader.


def test_a_stored_pack_that_leaves_without_the_last_check_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unchecked(
        delivery: Delivery,
        thread_id: ThreadId,
        principal: Principal,
        _policy: object,
        space_id: str,
        *_: object,
    ) -> tuple[ContextPack | None, tuple[str, ...]]:
        delivery.read_as(principal)
        found = look_up_pack(delivery._connection, thread_id, principal.audience, space_id)  # noqa: SLF001
        return found.pack, found.stale

    monkeypatch.setattr(Delivery, "stored_pack", unchecked)
    assert leaked_by(ground) == {"service, tampered pack"}


def test_a_last_check_of_stored_packs_that_nobody_heeds_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pack is then built anew, because the lane sees fewer of its units than it holds; but nobody would hear of it."""
    monkeypatch.setattr(Delivery, "_still_there", lambda *_: [])
    missed = {each.path for each in probe_service(asked_as(ground)) if each.missed}
    assert missed == {"service, tampered pack"}


def test_a_built_pack_that_leaves_without_the_last_check_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Delivery, "confirm", lambda *_: True)
    assert leaked_by(ground) == {"service, race with a build"}


def test_found_texts_that_leave_without_the_last_check_are_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Delivery, "hidden_in", lambda *_: [])
    assert leaked_by(ground) == {"service, race with a search"}


def test_a_race_that_never_took_place_proves_nothing(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the service read units with another statement some day, the probe says so instead of passing."""
    monkeypatch.setattr(DiscardedConnection, "follow", lambda *_: None)
    assert leaked_by(ground) == {"service, race with a build", "service, race with a search"}


def leaked_by(ground: CanaryGround) -> set[str]:
    return {each.path for each in probe_service(asked_as(ground)) if each.leaked}


def events(house: ContentHouse) -> list[SecurityEvent]:
    with house.connect() as connection:
        return list_security_events(connection)
