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
from fixtures_postgres import as_url, new_database
from hub_rows import add_document, add_unit
from threadhouse.retrieval import fallback, packs, search
from threadhouse.retrieval.audience import VOCABULARY
from threadhouse.retrieval.models import AllOf, Audience
from threadhouse.serving.leak_probe import probe_published, probe_service
from threadhouse.stores import pack_delivery
from threadhouse.stores.leak_probe import CanaryGround, planted_canaries
from threadhouse.stores.postgres import Database
from threadhouse.stores.security_events import SecurityEvent, list_security_events
from threadhouse.stores.settings import Settings

DAY = date(2026, 11, 30)


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Two public units and four that only some see, published to the embedded engine."""
    house = ContentHouse(database, tmp_path, engine="edge")
    with house.connect() as connection:
        for number, visibility in enumerate(
            ("public", "public", "partner", "employee", "internal", "restricted")
        ):
            add_document(connection, f"d{number}", visibility=visibility)
            add_unit(connection, f"u{number}", f"d{number}", f"Nội dung số {number} của quy định.")
    house.publish()
    house.refresh_centroids()
    return house


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
    for module, name, broken in (
        (search, "vector_filter", lambda *_: AllOf()),
        (search, "sight_of", lambda *_: lambda _: True),
        (fallback, "visible", lambda *_: True),
        (pack_delivery, "_allowed", lambda *_: {f: sorted(w) for f, w in VOCABULARY.items()}),
    ):
        with monkeypatch.context() as only:
            only.setattr(module, name, broken)
            assert probe_published(settings_of(house), DAY).faults == (), name
    assert events(house) == []


def test_a_real_hidden_unit_that_comes_back_is_a_security_event(
    house: ContentHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All enforcers off at once, the database's as well."""
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf())
    monkeypatch.setattr(search, "sight_of", lambda *_: lambda _: True)
    monkeypatch.setattr(fallback, "visible", lambda *_: True)
    everything = {name: sorted(words) for name, words in VOCABULARY.items()}
    monkeypatch.setattr(pack_delivery, "_allowed", lambda *_: everything)
    house.change(
        "create or replace function cong.allowed_now() returns integer language sql stable as 'select 134217727'"
    )
    report = probe_published(settings_of(house), DAY)
    assert {each.reader for each in report.faults} == set(Audience)
    assert len(events(house)) == len(report.faults)
    assert rows(house.database, "select count(*) from nao.retrieval_metric_event") == [(0,)]


def test_a_hub_without_vectors_has_nothing_to_probe(database: Database, tmp_path: Path) -> None:
    report = probe_published(settings_of(ContentHouse(database, tmp_path)), DAY)
    assert (report.outcomes, report.left_out) == ((), ("nothing is published yet",))


@pytest.fixture(scope="module")
def planted(
    postgres_server: Database, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[CanaryGround, None, None]:
    """One house of canaries for the tests below."""
    home = tmp_path_factory.mktemp("service_probe")
    with (
        new_database(postgres_server, template_database) as database,
        planted_canaries(database, Settings(threadhouse_home=home)) as planted,
    ):
        yield planted


@pytest.fixture
def ground(planted: CanaryGround) -> Generator[CanaryGround, None, None]:
    """The house as it was planted."""
    connection = planted.database.connection
    assert connection is not None
    with connection.transaction(force_rollback=True):
        yield planted


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
    assert {each.path for each in probe_service(ground) if each.leaked} >= {
        "service, hidden thread"
    }


def test_a_service_that_finds_nothing_is_noticed(
    ground: CanaryGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "vector_filter", lambda *_: AllOf((("metadata.lane", ("x",)),)))
    missed = {each.path for each in probe_service(ground) if each.missed}
    assert "service, raw search" in missed


def events(house: ContentHouse) -> list[SecurityEvent]:
    with house.connect() as connection:
        return list_security_events(connection)
