"""Loading into a real database: what is written, what is refused, and that doing it twice writes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString

import polars as pl
import pytest

from threadhouse.retrieval.errors import LoadError, StoreLockedError
from threadhouse.retrieval.sources import LoadTable
from threadhouse.stores import queries
from threadhouse.stores.loading import LoadReport, load_path
from threadhouse.stores.postgres import Database

REPOSITORY = Path(__file__).parents[2]
REAL_DATA = REPOSITORY.parent / "shared" / "data"

FRONT = """\
---
document_id: d1
title: Quy chế
language: vi
visibility: public
readiness: published
publication_state: published
risk_class: low
authority: enacted
lifecycle_stage: law
unit_kind: clause
address_prefix: QC
---
"""
DOCUMENT: dict[str, object] = {"document_id": "d1", "title": "Một", "language": "vi"}
UNIT: dict[str, object] = {
    "logical_unit_id": "u1",
    "document_id": "d1",
    "canonical_address": "A/1",
    "unit_kind": "clause",
    "lifecycle_stage": "law",
    "title": "Điều 1",
    "body": "Nội dung",
}
THREAD: dict[str, object] = {"thread_id": "t1", "title": "Luồng"}
MEMBER: dict[str, object] = {
    "thread_id": "t1",
    "logical_unit_id": "u1",
    "role": "canonical",
    "confidence": 1,
    "status": "confirmed",
}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return folder


def write_rows(folder: Path, table: str, *rows: Mapping[str, object] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / f"{table}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_tables(folder: Path) -> Path:
    write_rows(folder, "production_document", DOCUMENT)
    write_rows(folder, "tac_logical_unit", UNIT)
    write_rows(folder, "semantic_thread", THREAD)
    return write_rows(folder, "thread_membership", MEMBER)


def rows(database: Database, statement: LiteralString) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(statement).fetchall()


def change_count(database: Database) -> int:
    return rows(database, "select count(*) from nao.change_log")[0][0]


def versions(database: Database, unit_id: str) -> list[tuple[int, str, bool]]:
    with database.connect() as connection:
        return connection.execute(
            "select v.revision, v.body, v.unit_version_id = u.current_version_id from tac_unit_version v"
            " join tac_logical_unit u using (logical_unit_id) where logical_unit_id = %s order by 1",
            [unit_id],
        ).fetchall()


def refused(report: LoadReport) -> list[str]:
    return [str(fault) for fault in report.quarantined]


def open_items(database: Database) -> list[tuple[Any, ...]]:
    return rows(
        database,
        "select item_key, field, reason, file, line, occurrence_count from nao.quarantined_item"
        " where resolved_at is null order by 1, 2",
    )


# --- Markdown ---


def test_a_folder_of_markdown_becomes_documents_and_units(
    database: Database, tmp_path: Path
) -> None:
    write(tmp_path, a=FRONT + "# Quy chế\n\nMở đầu\n\n## Một {#mot visibility=employee}\n\nA\n")
    load_path(database, tmp_path)
    found = rows(
        database,
        "select canonical_address, title, body, visibility, readiness from source.information_unit order by ordinal",
    )
    assert found == [
        ("QC/0", "Quy chế", "Mở đầu", "public", "published"),
        ("QC/mot", "Một", "A", "employee", "published"),
    ]


def test_loading_again_writes_nothing(database: Database, tmp_path: Path) -> None:
    write(tmp_path, a=FRONT + "## Một\nA\n", b="# Khác\n\nB\n")
    load_path(database, tmp_path)
    before = change_count(database)
    report = load_path(database, tmp_path)
    assert (report.write_count, change_count(database)) == (0, before)


def test_the_same_text_in_another_normal_form_and_newline_style_writes_nothing(
    database: Database, tmp_path: Path
) -> None:
    text = FRONT + "## Điều một\n\nNội dung\n"
    load_path(database, write(tmp_path, a=text))
    before = change_count(database)
    nasty = "\ufeff" + unicodedata.normalize("NFD", text).replace("\n", "\r\n")
    report = load_path(database, write(tmp_path, a=nasty))
    assert (report.write_count, change_count(database)) == (0, before)


def test_a_changed_text_makes_one_version_and_moves_the_pointer(
    database: Database, tmp_path: Path
) -> None:
    load_path(database, write(tmp_path, a=FRONT + "## Một\nA\n## Hai\nB\n"))
    report = load_path(database, write(tmp_path, a=FRONT + "## Một\nA2\n## Hai\nB\n"))
    assert report.of(LoadTable.LOGICAL_UNIT).new_versions == 1
    assert versions(database, "QC/1") == [(1, "A", False), (2, "A2", True)]
    assert versions(database, "QC/2") == [(1, "B", True)]


def test_a_changed_flag_makes_no_version(database: Database, tmp_path: Path) -> None:
    load_path(database, write(tmp_path, a=FRONT + "## Một\nA\n"))
    report = load_path(database, write(tmp_path, a=FRONT + "## Một {visibility=internal}\nA\n"))
    counts = report.of(LoadTable.LOGICAL_UNIT)
    assert (counts.updated, counts.new_versions) == (1, 0)


def test_what_a_file_no_longer_says_is_kept(database: Database, tmp_path: Path) -> None:
    load_path(database, write(tmp_path, a=FRONT + "## Một\nA\n## Hai\nB\n"))
    load_path(database, write(tmp_path, a=FRONT + "## Một\nA\n"))
    assert versions(database, "QC/2") == [(1, "B", True)]


def test_older_texts_come_first_and_only_changed_units_get_two_versions(
    database: Database, tmp_path: Path
) -> None:
    write(
        tmp_path,
        revisions__a=FRONT + "## Một\nA\n## Hai\nB\n",
        documents__a=FRONT + "## Một\nA2\n## Hai\nB\n## Ba\nC\n",
    )
    load_path(database, tmp_path)
    assert versions(database, "QC/1") == [(1, "A", False), (2, "A2", True)]
    assert versions(database, "QC/2") == [(1, "B", True)]
    assert rows(database, "select revision, body like '%A2%' from production_document") == [
        (2, True)
    ]


def test_older_texts_loaded_again_write_nothing(database: Database, tmp_path: Path) -> None:
    write(tmp_path, revisions__a=FRONT + "## Một\nA\n", documents__a=FRONT + "## Một\nA2\n")
    load_path(database, tmp_path)
    before = change_count(database)
    report = load_path(database, tmp_path)
    assert (report.write_count, change_count(database)) == (0, before)


def test_a_unit_that_only_an_older_text_has_is_superseded(
    database: Database, tmp_path: Path
) -> None:
    write(
        tmp_path,
        revisions__a=FRONT + "## Một\nA\n## Cũ {#cu}\nX\n",
        documents__a=FRONT + "## Một\nA\n",
    )
    load_path(database, tmp_path)
    assert rows(
        database, "select canonical_address, readiness from source.information_unit order by 1"
    ) == [("QC/1", "published"), ("QC/cu", "superseded")]


def test_a_file_with_a_stated_revision_keeps_its_place_in_history(
    database: Database, tmp_path: Path
) -> None:
    newer = FRONT.replace("title:", "revision: 5\ntitle:") + "## Một\nE\n"
    older = FRONT.replace("title:", "revision: 3\ntitle:").replace("public\n", "internal\n", 1)
    load_path(database, write(tmp_path, a=newer))
    load_path(database, write(tmp_path, a=older + "## Một {risk_class=high}\nC\n"))
    assert versions(database, "QC/1") == [(3, "C", False), (5, "E", True)]
    assert rows(database, "select revision, visibility from production_document") == [(5, "public")]
    assert rows(database, "select risk_class from tac_logical_unit") == [(None,)]


def test_wrong_files_are_refused_one_by_one_and_the_rest_loads(
    database: Database, tmp_path: Path
) -> None:
    write(
        tmp_path,
        good=FRONT + "A",
        date=FRONT.replace("d1", "d2").replace("title:", "created: 2025-30-01\ntitle:") + "A",
        nul="a\0b",
    )
    (tmp_path / "latin.md").write_bytes("Điều".encode("utf-16"))
    (tmp_path / "bytes.txt").write_bytes(b"one\ntwo \xff")
    (tmp_path / "page.html").write_text("<p>")
    report = load_path(database, tmp_path)
    assert rows(database, "select document_id from production_document") == [("d1",)]
    assert {reason.split(" ")[0] for reason in refused(report)} == {
        "bytes.txt:2",
        "date.md:3",
        "latin.md",
        "nul.md",
    }
    assert [file.file for file in report.skipped] == ["page.html"]


def test_a_path_that_another_document_holds_is_refused(database: Database, tmp_path: Path) -> None:
    load_path(database, write_rows(tmp_path, "production_document", {**DOCUMENT, "path": "x"}))
    report = load_path(
        database,
        write_rows(tmp_path, "production_document", {**DOCUMENT, "document_id": "d2", "path": "x"}),
    )
    assert refused(report) == [
        "production_document.jsonl:1 path: x is the path of document d1 already"
    ]


# --- Tables ---


def test_tables_load_in_the_order_of_their_references(database: Database, tmp_path: Path) -> None:
    load_path(database, write_tables(tmp_path))
    assert rows(
        database, "select thread_id, logical_unit_id, confidence from thread_membership"
    ) == [("t1", "u1", 1.0)]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_csv_and_parquet_load_like_jsonl(database: Database, tmp_path: Path, ending: str) -> None:
    tables = {
        "production_document": DOCUMENT,
        "tac_logical_unit": {**UNIT, "body": 'Một "hai"\n\nba, bốn'},
    }
    for table, row in tables.items():
        frame = pl.DataFrame([row])
        path = tmp_path / f"{table}.{ending}"
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    load_path(database, tmp_path)
    assert versions(database, "u1") == [(1, 'Một "hai"\n\nba, bốn', True)]


def test_broken_lines_are_refused_by_number_and_the_rest_loads(
    database: Database, tmp_path: Path
) -> None:
    path = write_rows(
        tmp_path, "semantic_thread", THREAD, '{"thread_id": ', "[1]", '{"thread_id": NaN}',
        '{"thread_id": "a", "thread_id": "b"}', {**THREAD, "thread_id": "t2", "visibility": "x"}, {"thread_id": "t3"},
    )  # fmt: skip
    with (tmp_path / "semantic_thread.jsonl").open("ab") as file:
        file.write(b'{"thread_id": "t9", "title": "\xff"}\n')
    report = load_path(database, path)
    assert rows(database, "select thread_id from semantic_thread") == [("t1",)]
    assert [reason.split(" ")[0] for reason in refused(report)] == [
        f"semantic_thread.jsonl:{line}" for line in range(2, 9)
    ]


def test_csv_with_too_few_columns_or_wrong_bytes_is_refused_by_line(
    database: Database, tmp_path: Path
) -> None:
    good = 'thread_id,title\nt1,"hai\ndòng"\nt2\n'.encode()
    (tmp_path / "semantic_thread.csv").write_bytes(good + b"t3,\xff\nt4,x,y\nt5,ok\n")
    report = load_path(database, tmp_path)
    assert rows(database, "select thread_id, title from semantic_thread order by 1") == [
        ("t1", "hai\ndòng"),
        ("t5", "ok"),
    ]
    assert refused(report) == [
        "semantic_thread.csv:4 (whole item): has 1 columns instead of 2",
        "semantic_thread.csv:5 (whole item): is not UTF-8",
        "semantic_thread.csv:6 (whole item): has 3 columns instead of 2",
    ]


def test_a_parquet_row_with_a_time_outside_the_calendar_is_refused_alone(
    database: Database, tmp_path: Path
) -> None:
    rows = pl.DataFrame(
        {"document_id": ["d1", "d2"], "title": ["Một", "Hai"], "updated_at": [0, 2**62]}
    )
    rows.cast({"updated_at": pl.Datetime("us")}).write_parquet(
        tmp_path / "production_document.parquet"
    )
    report = load_path(database, tmp_path)
    (refused,) = report.quarantined
    assert refused.origin.line == 2
    assert "cannot be read" in refused.reason


def test_a_path_that_is_no_file_is_refused_and_nothing_beside_it_is_read(
    database: Database, tmp_path: Path
) -> None:
    write_rows(tmp_path, "production_document", DOCUMENT)
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(LoadError, match="neither a folder nor a regular file"):
        load_path(database, tmp_path / "pipe.md")


def test_a_broken_parquet_file_is_refused_as_a_whole(database: Database, tmp_path: Path) -> None:
    (tmp_path / "semantic_thread.parquet").write_bytes(b"PAR1 not really")
    assert "is not a readable Parquet file" in refused(load_path(database, tmp_path))[0]


def test_references_to_what_is_not_loaded_are_refused(database: Database, tmp_path: Path) -> None:
    write_tables(tmp_path)
    write_rows(
        tmp_path, "thread_membership", MEMBER, {**MEMBER, "thread_id": "t9"}, {**MEMBER, "logical_unit_id": "u9"},
        {**MEMBER, "confidence": 1.7},
    )  # fmt: skip
    write_rows(tmp_path, "tac_unit_version", {"logical_unit_id": "u9", "body": "x"})
    report = load_path(database, tmp_path)
    assert sorted(refused(report)) == [
        "tac_unit_version.jsonl:1 logical_unit_id: unit u9 is not loaded",
        "thread_membership.jsonl:2 thread_id: thread t9 is not loaded",
        "thread_membership.jsonl:3 logical_unit_id: unit u9 is not loaded",
        "thread_membership.jsonl:4 confidence: 1.7: input should be less than or equal to 1",
    ]
    assert len(rows(database, "select from thread_membership")) == 1


def test_a_row_that_only_the_database_can_refuse_does_not_take_its_batch_along(
    database: Database, tmp_path: Path
) -> None:
    # No check of ours knows how long an index entry may be; uncompressible, or it would fit after all.
    endless = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(3000))
    many = [{**THREAD, "thread_id": f"t{number}"} for number in range(40)]
    write_rows(
        tmp_path, "semantic_thread", *many[:20], {**THREAD, "thread_id": endless}, *many[20:]
    )
    report = load_path(database, tmp_path)
    assert len(rows(database, "select from semantic_thread")) == 40
    assert len(report.quarantined) == 1


def test_a_member_can_be_named_by_address_or_by_its_whole_document(
    database: Database, tmp_path: Path
) -> None:
    write_tables(tmp_path)
    write_rows(
        tmp_path,
        "tac_logical_unit",
        UNIT,
        {**UNIT, "logical_unit_id": "u2", "canonical_address": "A/2"},
    )
    member = {key: value for key, value in MEMBER.items() if key != "logical_unit_id"}
    whole = {**member, "document_id": "d1", "role": "supporting"}
    write_rows(tmp_path, "thread_membership", whole, {**member, "canonical_address": "A/2"})
    load_path(database, tmp_path)
    found = "select logical_unit_id, role from thread_membership order by 1"
    assert rows(database, found) == [("u1", "supporting"), ("u2", "canonical")]
    before = change_count(database)
    report = load_path(database, tmp_path)
    assert (report.write_count, change_count(database)) == (0, before)


def test_a_stored_revision_cannot_get_another_text(database: Database, tmp_path: Path) -> None:
    write_rows(write_tables(tmp_path), "tac_logical_unit", {**UNIT, "revision": 3})
    load_path(database, tmp_path)
    report = load_path(
        database, write_rows(tmp_path, "tac_logical_unit", {**UNIT, "revision": 3, "body": "x"})
    )
    assert "revision 3 is stored with another text" in refused(report)[0]
    assert versions(database, "u1") == [(3, "Nội dung", True)]


def test_rows_of_one_unit_in_any_order_end_at_the_highest_revision(
    database: Database, tmp_path: Path
) -> None:
    write_rows(
        write_tables(tmp_path), "tac_logical_unit", {**UNIT, "revision": 2, "body": "B", "visibility": "public"},
        {**UNIT, "revision": 1, "body": "A", "visibility": "internal"},
    )  # fmt: skip
    load_path(database, tmp_path)
    assert versions(database, "u1") == [(1, "A", False), (2, "B", True)]
    assert rows(database, "select visibility from tac_logical_unit") == [("public",)]


# --- Quarantine ---


def test_a_refused_row_is_counted_again_and_resolved_when_it_loads(
    database: Database, tmp_path: Path
) -> None:
    write_tables(tmp_path)
    write_rows(tmp_path, "thread_membership", {**MEMBER, "status": "maybe"})
    load_path(database, tmp_path)
    write_rows(tmp_path, "thread_membership", "", {**MEMBER, "status": "maybe"})
    load_path(database, tmp_path)
    key, field, _, file, line, count = open_items(database)[0]
    assert (key, field, file, line, count) == (
        "thread_membership:t1|u1",
        "status",
        "thread_membership.jsonl",
        2,
        2,
    )
    report = load_path(database, write_rows(tmp_path, "thread_membership", MEMBER))
    assert (report.resolved, open_items(database)) == (1, [])


# --- Mapping, paths, concurrency ---


def test_a_mapping_file_loads_a_foreign_export(database: Database, tmp_path: Path) -> None:
    source = tmp_path / "export"
    source.mkdir()
    write_rows(
        source,
        "artikel",
        {"nr": 7, "was": "Gesetz", "text": "Inhalt", "gilt": True},
        {"nr": 8, "gilt": False},
    )
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(
        """
tables:
  - rows: [{document_id: g}]
    feeds: [{table: production_document, columns: {document_id: document_id, title: {value: Sammlung}}}]
  - file: artikel.jsonl
    feeds:
      - table: tac_logical_unit
        where: {gilt: true}
        columns:
          logical_unit_id: {template: "g#{nr:03}"}
          document_id: {value: g}
          canonical_address: {template: "G {nr}"}
          lifecycle_stage: {column: was, values: {gesetz: law}}
          body: text
"""
    )
    report = load_path(database, source, mapping)
    assert rows(
        database, "select logical_unit_id, canonical_address, lifecycle_stage from tac_logical_unit"
    ) == [("g#007", "G 7", "law")]
    assert report.of(LoadTable.LOGICAL_UNIT).filtered == 1


def test_the_shipped_mapping_loads_plain_documentation(database: Database, tmp_path: Path) -> None:
    write(tmp_path, guide="# Guide\n\nA\n", draft="---\nstatus: WIP\nowner: me\n---\n# Plan\n\nB\n")
    report = load_path(
        database, tmp_path, REPOSITORY / "examples" / "mappings" / "documentation.yaml"
    )
    assert refused(report) == []
    assert rows(
        database,
        "select document_id, visibility, readiness from source.information_unit order by 1",
    ) == [("docs/draft.md", "employee", "draft"), ("docs/guide.md", "employee", "approved")]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("tables: [", "cannot be read"),
        ("tabels: []", "is not a known name here"),
        ("tables: [{file: no.jsonl, feeds: [{table: semantic_thread, columns: {}}]}]", "is not in"),
        ("tables: [{file: ../x.jsonl, feeds: [{table: semantic_thread, columns: {}}]}]", "outside"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_one_clear_error(
    database: Database, tmp_path: Path, mapping: str, message: str
) -> None:
    (tmp_path / "source").mkdir()
    write(tmp_path / "source", a="A")
    (tmp_path / "m.yaml").write_text(mapping)
    with pytest.raises(LoadError, match=message):
        load_path(database, tmp_path / "source", tmp_path / "m.yaml")


def test_a_wrong_path_is_one_clear_error(database: Database, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        load_path(database, tmp_path / "nowhere")


def test_a_folder_with_nothing_to_load_is_one_clear_error(
    database: Database, tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match="holds nothing to load"):
        load_path(database, tmp_path)


def test_a_single_file_loads(database: Database, tmp_path: Path) -> None:
    write(tmp_path, a=FRONT + "A", b="B")
    assert load_path(database, tmp_path / "a.md").of(LoadTable.PRODUCTION_DOCUMENT).inserted == 1


def test_two_loads_at_once_are_refused(database: Database, tmp_path: Path) -> None:
    write(tmp_path, a=FRONT + "A")
    impatient = Database(database.conninfo, database.is_embedded, lock_timeout_s=0.2)
    with database.connect() as connection:
        connection.execute(queries.load("load_lock"))
        with pytest.raises(StoreLockedError, match="Another load is running"):
            load_path(impatient, tmp_path)


KILLED_LOAD = """
import os, signal, sys
from pathlib import Path
from threadhouse.stores import loading
from threadhouse.stores.postgres import Database

batches = 0
original = loading._Load._write

def write_and_die(self, items, write):
    global batches
    original(self, items, write)
    batches += 1
    if batches == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

loading.BATCH_ROWS = 1
loading._Load._write = write_and_die
loading.load_path(Database(os.environ["CONNINFO"], True), Path(sys.argv[1]))
"""


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7])
def test_a_killed_load_is_completed_by_the_next_one(
    database: Database, tmp_path: Path, batch: int
) -> None:
    write(tmp_path, documents__a=FRONT + "## Một\nA\n", documents__b="# B\n\n## Hai\nB\n",
          revisions__a=FRONT + "## Một\nA0\n")  # fmt: skip
    write_rows(tmp_path, "semantic_thread", THREAD)
    write_rows(tmp_path, "thread_membership", {**MEMBER, "logical_unit_id": "QC/1"})
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_LOAD, str(tmp_path), str(batch)],
        env={**os.environ, "CONNINFO": database.conninfo},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    load_path(database, tmp_path)
    assert versions(database, "QC/1") == [(1, "A0", False), (2, "A", True)]
    assert rows(
        database,
        "select (select count(*) from tac_unit_version), (select count(*) from thread_membership)",
    ) == [(3, 1)]
    assert load_path(database, tmp_path).write_count == 0


def test_the_report_is_json_and_text(database: Database, tmp_path: Path) -> None:
    write(tmp_path, a=FRONT + "A", b="")
    report = load_path(database, tmp_path)
    data = json.loads(json.dumps(report.to_json()))
    assert data["tables"]["production_document"]["inserted"] == 1
    assert data["quarantined"][0]["file"] == "b.md"
    assert "b.md (whole item): the file is empty" in report.render()


# --- Real hubs ---


def test_the_sample_hub_loads_clean_and_twice_changes_nothing(database: Database) -> None:
    hub = REPOSITORY / "examples" / "hub"
    report = load_path(database, hub)
    assert refused(report) == []
    counts = report.of(LoadTable.LOGICAL_UNIT)
    assert (
        report.of(LoadTable.PRODUCTION_DOCUMENT).inserted,
        counts.inserted,
        counts.new_versions,
    ) == (14, 99, 105)
    assert load_path(database, hub).write_count == 0


def real(name: str) -> Path:
    path = REAL_DATA / name
    if not path.is_dir():
        pytest.skip(f"needs {name}, looked for beside the checkout at ../shared/data")
    return path


def mapping(name: str) -> Path:
    return REPOSITORY / "tests" / "mappings" / f"{name}.yaml"


def test_every_unit_thread_and_edge_of_phapdien_loads(database: Database) -> None:
    source = real("vn_phapdien")
    report = load_path(database, source, mapping("phapdien"))
    assert refused(report) == []
    counts = rows(
        database,
        "select (select count(*) from source.information_unit), (select count(*) from semantic_thread),"
        " (select count(*) from thread_membership), (select count(*) from universal_edge)",
    )
    assert counts == [(4834, 23, 4834, 10625)]
    before = change_count(database)
    load_path(database, source, mapping("phapdien"))
    assert change_count(database) == before


def test_vanban_keeps_every_older_version_and_serves_the_newest(database: Database) -> None:
    source = real("vn_vanban2026")
    older = load_path(database, source, mapping("vanban_old"))
    newer = load_path(database, source, mapping("vanban"))
    assert {fault.reason for fault in [*older.quarantined, *newer.quarantined]} == {"is empty"}
    found: Sequence[tuple[Any, ...]] = rows(
        database,
        "select (select count(*) from tac_unit_version), (select count(*) from tac_logical_unit"
        " where current_version_id is not null and readiness is null)",
    )
    # 1,379 - 13 empty and 3,934 - 48 empty; the units that only older texts have are superseded.
    assert found == [(1366 + 3886, 3886)]
    before = change_count(database)
    load_path(database, source, mapping("vanban_old"))
    load_path(database, source, mapping("vanban"))
    assert change_count(database) == before


@pytest.mark.parametrize(
    ("name", "rules", "unit_count", "edge_count"),
    [("xquad_vi_en", "xquad", 480, 240), ("peps_lifecycle", "peps", 7847 - 433, 1089)],
)
def test_other_exports_load_through_their_mapping(
    database: Database, name: str, rules: str, unit_count: int, edge_count: int
) -> None:
    report = load_path(database, real(name), mapping(rules))
    assert refused(report) == []
    assert rows(
        database,
        "select (select count(*) from source.information_unit), (select count(*) from universal_edge)",
    ) == [(unit_count, edge_count)]
