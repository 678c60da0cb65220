"""Faults that others reported of comparable systems, where no other test says so; ``docs/field-reports.md`` lists all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import LiteralString

import pytest

from content_house import DOCUMENTS, UNITS, ContentHouse
from counting_embedder import HashEmbedder
from hub_rows import add_document, add_unit, write_version
from threadhouse.stores.embedders import EmbeddedBatch
from threadhouse.stores.loading import load_path
from threadhouse.stores.postgres import Database

LONGEST_NOTIFICATION_BYTES = 7_999


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Nine units in one document, each in two versions, and three legacy documents; published twice."""
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        add_document(connection, "document")
        for number in range(9):
            add_unit(connection, f"unit-{number}", "document", f"Điều {number}, bản cũ.")
        for number in range(3):
            add_document(connection, f"legacy-{number}", body=f"Văn bản {number}. " * 40)
    house.publish()
    with house.connect() as connection:
        for number in range(9):
            write_version(connection, f"unit-{number}", f"Điều {number}, bản mới.")
    house.publish()
    return house


class TornEmbedder(HashEmbedder):
    """Gives out some vectors, then nothing more: a model that goes away in the middle."""

    def __init__(self, texts_left: int) -> None:
        super().__init__()
        self.texts_left = texts_left

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        for batch in super().iter_passages(texts):
            if self.texts_left == 0:
                message = "the model went away"
                raise ConnectionResetError(message)
            self.texts_left -= 1
            yield batch

    iter_long_passages = iter_passages


@pytest.mark.parametrize("texts_left", [0, 1, 2])
def test_a_model_that_goes_away_takes_no_old_version_with_it(
    house: ContentHouse, texts_left: int
) -> None:
    before = house.points(UNITS)
    with house.connect() as connection:
        for number in range(3):
            write_version(connection, f"unit-{number}", f"Điều {number}, bản thứ ba.")
    whole, house.inner = house.inner, TornEmbedder(texts_left)
    with pytest.raises(ConnectionResetError):
        house.publish()
    after = house.points(UNITS)
    assert {point: after.get(point) for point in before} == before
    house.inner = whole
    assert house.publish().texts_embedded == 3 - texts_left
    assert house.findings() == {}


def test_a_deletion_that_no_trigger_saw_is_found_by_the_next_publish(house: ContentHouse) -> None:
    logged = house.rows("select count(*) from nao.change_log")
    for table in ("tac_logical_unit", "production_document"):
        house.change(f"alter table public.{table} disable trigger user")
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-4'")
    house.change("delete from public.production_document where document_id = 'legacy-1'")
    assert house.rows("select count(*) from nao.change_log") == logged
    report = house.publish(allowed_deletion_share=0.5)
    assert (report.owners_retired, report.chunks_written) == (2, 0)
    assert "unit-4" not in house.owners(UNITS)
    assert "legacy-1" not in house.owners(DOCUMENTS)
    assert house.findings() == {}


def stage_and_stop(house: ContentHouse) -> None:
    """Leave points of a version that was written and never switched to."""
    with house.connect() as connection:
        write_version(connection, "unit-0", "Điều 0, bản không bao giờ được công bố.")

    def stop(name: str) -> None:
        if name.startswith("staged:"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        house.publish(stop)


def published_after(statement: LiteralString) -> Callable[[ContentHouse], None]:
    def act(house: ContentHouse) -> None:
        house.change(statement, "unit-0")
        house.publish()

    return act


STATES: dict[str, Callable[[ContentHouse], None]] = {
    "as it was published": lambda _: None,
    "replaced, never published": stage_and_stop,
    "superseded": published_after(
        "update public.tac_logical_unit set readiness = 'superseded' where logical_unit_id = %s"
    ),
    "withdrawn": published_after(
        "update public.tac_logical_unit set publication_state = 'withdrawn' where logical_unit_id = %s"
    ),
    "blocked": published_after(
        "update public.tac_logical_unit set data_classification = 'blocked' where logical_unit_id = %s"
    ),
    "without a live version": published_after(
        "update public.tac_logical_unit set current_version_id = null where logical_unit_id = %s"
    ),
    "in another document": published_after(
        "update public.tac_logical_unit set document_id = 'legacy-0' where logical_unit_id = %s"
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_a_deletion_takes_what_is_stored_whatever_state_it_is_in(
    house: ContentHouse, state: str
) -> None:
    STATES[state](house)
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-0'")
    house.publish()
    with house.writer() as store:
        stored = {json.dumps(point.payload) for point in store.scroll(store.resolve(UNITS))}
    assert not [payload for payload in stored if '"unit-0"' in payload]
    assert "unit-0" not in house.pointers(UNITS)
    assert house.findings() == {}


def test_a_nul_is_refused_alone_and_the_rest_of_its_batch_loads(
    database: Database, tmp_path: Path
) -> None:
    document = {"document_id": "d", "title": "Một", "language": "vi"}
    units = [
        {
            "logical_unit_id": f"u{number}",
            "document_id": "d",
            "canonical_address": f"A/{number}",
            "unit_kind": "clause",
            "lifecycle_stage": "law",
            "title": f"Điều {number}",
            "body": "Nội dung\0" if number == 17 else "Nội dung",
        }
        for number in range(50)
    ]
    for table, rows in (("production_document", [document]), ("tac_logical_unit", units)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{table}.jsonl").write_text(text, encoding="utf-8")
    first, second = load_path(database, tmp_path), load_path(database, tmp_path)
    for report in (first, second):
        (fault,) = report.quarantined
        assert "tac_logical_unit.jsonl:18" in str(fault)
        assert "NUL" in str(fault)
    with database.connect() as connection:
        row = connection.execute("select count(*) from source.information_unit").fetchone()
    assert row == (49,)


def test_a_change_of_many_rows_sends_one_short_hint_and_logs_every_row(database: Database) -> None:
    """A notification holds less than 8,000 bytes, and a server may lose it: the log has to be whole without any."""
    keys = [f"{number:04}-{'x' * 400}" for number in range(300)]
    with database.connect(autocommit=True) as listener:
        listener.execute("listen threadhouse_change")
        with database.connect() as connection:
            for key in keys:
                add_document(connection, key)
        with database.connect() as connection:
            connection.execute("update public.production_document set body = 'Mới.'")
        hints = list(listener.notifies(timeout=5, stop_after=2))
        logged = listener.execute(
            "select row_key from nao.change_log where op = 'update' and lane = 'content'"
        ).fetchall()
    assert {hint.payload for hint in hints} == {"production_document"}
    assert max(len(hint.payload) for hint in hints) <= LONGEST_NOTIFICATION_BYTES
    assert sorted(key for (key,) in logged) == keys
