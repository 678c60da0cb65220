"""Suites of expectations about real products: sound ones pass, each kind of damage is found, and no text gets out.

Method: one small hub with vectors, centroids, packs, events and rates, built once for the module; each test damages a copy of it.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import LiteralString
from uuid import UUID
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from content_house import ContentHouse
from fixtures_postgres import new_database
from hub_rows import add_document, add_unit
from threadhouse.retrieval.data_expectations import SUITES, SuiteName
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.stores.data_docs import DOCS_FOLDER
from threadhouse.stores.data_facts import UNKNOWN_TYPE, ProductStores, read_facts
from threadhouse.stores.data_validation import SuiteVerdict, judge_suite
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import append_events, count_days, days_due
from threadhouse.stores.night_records import note_audits
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
DAYS = (date(2026, 11, 16), date(2026, 11, 17))
WORD = "Geheimnis-7f3a"
"""Stands in every text of the hub: titles, bodies, the question."""


@dataclass(frozen=True)
class Products:
    """A hub with everything that suites judge."""

    stores: ProductStores
    home: Path

    def change(self, statement: LiteralString, *parameters: object) -> None:
        with self.stores.database.connect() as connection:
            connection.execute(statement, parameters)

    def judge(self, name: SuiteName) -> SuiteVerdict:
        return judge_suite(self.stores, self.home, name)

    def broken(self, name: SuiteName) -> set[str]:
        """What the expectations that do not hold are about."""
        return {each.subject for each in self.judge(name).broken}


def _build(database: Database, home: Path) -> Products:
    house = ContentHouse(database, home)
    with house.connect() as connection:
        add_document(connection, "doc", title=f"{WORD} document")
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title, purpose, visibility, readiness"
            ", publication_state, risk_class, authority)"
            " values ('thread-one', 'thread/one', %s, %s, 'public', 'published', 'published', 'low', 'enacted')",
            [WORD, WORD],
        )
        for name in ("a", "b"):
            add_unit(connection, f"unit-{name}", "doc", f"{WORD} body {name}.")
            connection.execute(
                "insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)"
                " values ('thread-one', %s, 'canonical', 1, 'confirmed')",
                [f"unit-{name}"],
            )
        add_document(connection, "legacy", body=f"{WORD} legacy.")
    house.publish()
    house.refresh_centroids()
    refresh_packs(database, house.inner.space.space_id)
    note_audits(database, house.audit().collections)
    for number, day in enumerate(DAYS, start=1):
        base = {"occurred_at": f"{day}T03:00:00Z", "query_id": UUID(int=number)}
        query = {"type": "query", "lane": "employee", "resolution_path": "thread"}
        events = [
            {
                **base,
                **query,
                "event_id": UUID(int=10 * number),
                "thread_id": "thread-one",
                "query_text": WORD,
            },
            {**base, "event_id": UUID(int=10 * number + 1), "type": "pack_delivered"},
        ]
        append_events(database, [RetrievalEvent.model_validate(event) for event in events])
    lake = EventLake(home / "lake")
    extract_days(database, lake, ZONE)
    count_days(database, lake, ZONE, days_due(database, lake))
    return Products(ProductStores(database, lake, ZONE), home)


@pytest.fixture(scope="module")
def built(
    postgres_server: Database,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Products, None, None]:
    with new_database(postgres_server, template_database) as database:
        products = _build(database, tmp_path_factory.mktemp("products"))
        yield products


@pytest.fixture
def products(
    built: Products, postgres_server: Database, tmp_path: Path
) -> Generator[Products, None, None]:
    """A copy, for this test alone."""
    with built.stores.database.connect() as connection:
        name = connection.info.dbname
    shutil.copytree(built.stores.lake.root, tmp_path / "lake")
    with new_database(postgres_server, name) as database:
        lake = EventLake(tmp_path / "lake")
        yield Products(replace(built.stores, database=database, lake=lake), tmp_path)


@pytest.mark.parametrize("name", SuiteName)
def test_sound_products_meet_every_expectation(products: Products, name: SuiteName) -> None:
    verdict = products.judge(name)
    assert verdict.broken == ()
    assert verdict.rows > 0


def _spoil_day(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Products], None]:
    def spoil(products: Products) -> None:
        file = products.stores.lake.file_of(DAYS[0])
        metadata = pl.read_parquet_metadata(file)
        change(pl.read_parquet(file, hive_partitioning=False)).write_parquet(
            file, metadata={k: v for k, v in metadata.items() if k != "ARROW:schema"}
        )

    return spoil


def _spoil_rows(statement: LiteralString) -> Callable[[Products], None]:
    return lambda products: products.change(statement)


DAMAGE = {
    "an event twice": (
        SuiteName.EVENTS,
        _spoil_day(lambda day: pl.concat([day, day.head(1)])),
        "repeated_events",
    ),
    "an event of another day": (
        SuiteName.EVENTS,
        _spoil_day(lambda day: day.with_columns(pl.col("attributed_at") + pl.duration(days=1))),
        "misplaced_events",
    ),
    "a query without a lane": (
        SuiteName.EVENTS,
        _spoil_day(lambda day: day.with_columns(lane=pl.lit(None, pl.String))),
        "faulty_events",
    ),
    "a question in the lake": (
        SuiteName.EVENTS,
        _spoil_day(lambda day: day.with_columns(query_text=pl.lit(WORD))),
        "unknown_columns",
    ),
    "a type that nobody knows": (
        SuiteName.EVENTS,
        _spoil_day(lambda day: day.with_columns(type=pl.lit(WORD))),
        "type",
    ),
    "a rate that is not the quotient": (
        SuiteName.AGGREGATES,
        _spoil_rows(
            "update nao.retrieval_metric_aggregate set rate = 0.123 where denominator > 0 and thread_id = ''"
        ),
        "rows_with_wrong_rate",
    ),
    "an interval beside the rate": (
        SuiteName.AGGREGATES,
        _spoil_rows(
            "update nao.retrieval_metric_aggregate set wilson_low = 1, wilson_high = 1 where rate < 1"
        ),
        "rate, wilson_low",
    ),
    "lanes that do not add up": (
        SuiteName.AGGREGATES,
        _spoil_rows(
            "update nao.retrieval_metric_aggregate set numerator = 2, denominator = 2, rate = 1"
            " where lane = 'employee' and metric = 'thread_hit_rate'"
        ),
        "numerator_off_by",
    ),
    "a rate that is gone": (
        SuiteName.AGGREGATES,
        _spoil_rows(
            "delete from nao.retrieval_metric_aggregate where lane = 'partner' and metric = 'user_reject_rate'"
        ),
        "rows_of_day",
    ),
    "a day without rates": (
        SuiteName.AGGREGATES,
        _spoil_rows("delete from nao.retrieval_metric_aggregate where local_day = '2026-11-16'"),
        "rows_of_day",
    ),
    "a pack under another thread": (
        SuiteName.PACKS,
        _spoil_rows(
            'update nao.thread_context_pack_cache set pack = pack || \'{"thread_id": "other"}\''
        ),
        "names_itself",
    ),
    "a pack without a field": (
        SuiteName.PACKS,
        _spoil_rows("update nao.thread_context_pack_cache set pack = pack - 'known_gaps'"),
        "missing_fields",
    ),
    "a pack without a unit": (
        SuiteName.PACKS,
        _spoil_rows(
            "update nao.thread_context_pack_cache set pack = pack"
            ' || \'{"canonical_units": [], "supporting_units": [], "latest_reports": []}\''
        ),
        "unit_count",
    ),
    "a unit that nobody can cite": (
        SuiteName.PACKS,
        _spoil_rows(
            "update nao.thread_context_pack_cache"
            " set pack = pack #- '{canonical_units,0,canonical_address}' #- '{supporting_units,0,canonical_address}'"
        ),
        "units_without_source",
    ),
    "a reading order of other units": (
        SuiteName.PACKS,
        _spoil_rows(
            'update nao.thread_context_pack_cache set pack = pack || \'{"recommended_reading_order": ["x"]}\''
        ),
        "units_not_ordered",
    ),
    "a pointer that is gone": (
        SuiteName.PROJECTIONS,
        _spoil_rows("delete from nao.vector_projection where owner_id = 'unit-a'"),
        "owners_missing",
    ),
    "a pointer to nothing": (
        SuiteName.PROJECTIONS,
        _spoil_rows(
            "update nao.vector_projection set owner_id = 'ghost' where owner_id = 'unit-a'"
        ),
        "owners_gone",
    ),
    "two spaces in one collection": (
        SuiteName.PROJECTIONS,
        _spoil_rows(
            "update nao.vector_projection set space_id = 'other' where owner_id = 'unit-a'"
        ),
        "space_count",
    ),
    "an audit that found something": (
        SuiteName.PROJECTIONS,
        _spoil_rows(
            "insert into nao.projection_audit (collection, points, owners, findings)"
            " values ('information_units', 1, 1, '{\"stale\": 1}')"
        ),
        "audit_findings",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_even_after_the_product_was_found_sound(
    products: Products, damage: str
) -> None:
    name, spoil, subject = DAMAGE[damage]
    spoil(products)
    assert subject in products.broken(name)


def test_damage_after_a_sound_night_is_found_and_named_by_its_grain(products: Products) -> None:
    assert products.judge(SuiteName.AGGREGATES).passed
    products.change(
        "update nao.retrieval_metric_aggregate set rate = 0.123 where local_day = '2026-11-17'"
        " and lane = 'employee' and metric = 'thread_hit_rate' and thread_id = ''"
    )
    verdict = products.judge(SuiteName.AGGREGATES)
    assert verdict.parts == 1
    places = {place for each in verdict.broken for place in each.where}
    assert "local_day 2026-11-17, lane employee, metric thread_hit_rate" in " ".join(places)


def test_what_did_not_change_is_not_judged_twice_and_what_is_broken_is(products: Products) -> None:
    assert products.judge(SuiteName.PACKS).parts == 1
    again = products.judge(SuiteName.PACKS)
    assert (again.parts, again.passed, again.judged_at is not None) == (0, True, True)
    products.change("update nao.thread_context_pack_cache set pack = pack - 'known_gaps'")
    assert [products.judge(SuiteName.PACKS).passed for _ in range(2)] == [False, False]


def test_a_file_that_cannot_be_read_is_a_day_without_events(products: Products) -> None:
    products.stores.lake.file_of(DAYS[0]).write_bytes(b"PAR1 not really PAR1")
    (row,) = read_facts(products.stores, SuiteName.EVENTS, [DAYS[0].isoformat()])
    assert (row["type"], row["events"]) == (UNKNOWN_TYPE, 0)


def test_a_hub_without_products_breaks_nothing(database: Database, tmp_path: Path) -> None:
    empty = Products(ProductStores(database, EventLake(tmp_path / "lake"), ZONE), tmp_path)
    assert {(empty.judge(name).passed, empty.judge(name).rows) for name in SuiteName} == {(True, 0)}


def test_data_docs_hold_every_suite_and_nothing_of_any_text(products: Products) -> None:
    for damage in (
        "a type that nobody knows",
        "a question in the lake",
        "a unit that nobody can cite",
    ):
        DAMAGE[damage][1](products)
    for suite in SUITES:
        products.judge(suite.name)
    pages = {
        page: page.read_text("utf-8") for page in (products.home / DOCS_FOLDER).rglob("*.html")
    }
    text = "".join(pages.values())
    assert WORD not in text
    assert {suite.name.value for suite in SUITES} <= {part for page in pages for part in page.parts}
    assert all(suite.expectations[-1].meaning in text for suite in SUITES)
    with products.stores.database.connect() as connection:
        (kept,) = connection.execute(
            "select string_agg(results::text, '') from nao.data_validation"
        ).fetchone() or ("",)
    assert WORD not in kept


def test_data_docs_load_nothing(products: Products) -> None:
    products.judge(SuiteName.PACKS)
    folder = products.home / DOCS_FOLDER
    assert {file.suffix for file in folder.rglob("*") if file.is_file()} == {".html"}
    for page in folder.rglob("*.html"):
        text = page.read_text("utf-8")
        for loaded in (
            "<script",
            "<img",
            "<link",
            "@import",
            'href="http',
            'src="http',
            "url(http",
        ):
            assert loaded not in text
        assert "default-src 'none'" in text


def test_judging_asks_no_network(products: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: object) -> None:
        raise AssertionError(address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert products.judge(SuiteName.AGGREGATES).passed


def test_nothing_due_imports_nothing(products: Products) -> None:
    """In a process of its own, because this one has imported it."""
    products.judge(SuiteName.PACKS)
    program = (
        "import sys; from pathlib import Path; from zoneinfo import ZoneInfo\n"
        "from threadhouse.retrieval.data_expectations import SuiteName\n"
        "from threadhouse.stores.data_facts import ProductStores\n"
        "from threadhouse.stores.data_validation import judge_suite\n"
        "from threadhouse.stores.lake import EventLake; from threadhouse.stores.postgres import Database\n"
        f"home = Path({str(products.home)!r})\n"
        f"database = Database({products.stores.database.conninfo!r}, is_embedded=True, lock_timeout_s=10)\n"
        "stores = ProductStores(database, EventLake(home / 'lake'), ZoneInfo('UTC'))\n"
        "assert judge_suite(stores, home, SuiteName.PACKS).judged_at\n"
        "sys.exit('great_expectations' in sys.modules or 'pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


def test_the_first_page_leads_to_every_other(products: Products) -> None:
    for suite in SUITES:
        products.judge(suite.name)
    folder = products.home / DOCS_FOLDER
    links = re.findall(r'href="([^"]+)"', (folder / "index.html").read_text("utf-8"))
    others = {file for file in folder.rglob("*.html") if file.name != "index.html"}
    assert {(folder / link).resolve() for link in links} == {file.resolve() for file in others}
