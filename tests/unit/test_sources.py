"""Rows, mappings, Markdown and versions, without files or a database."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from threadhouse.retrieval.events import MAX_CHARS
from threadhouse.retrieval.markdown_units import MarkdownDocument, read_markdown
from threadhouse.retrieval.source_mapping import (
    ColumnRule,
    Feed,
    MarkdownMapping,
    SourceMapping,
    fill_template,
)
from threadhouse.retrieval.sources import (
    MAX_LINE_BYTES,
    CheckedRow,
    DocumentRow,
    Doubles,
    EdgeRow,
    Fault,
    LoadTable,
    MetricEventRow,
    Origin,
    UnitRow,
    check_row,
)
from threadhouse.retrieval.version_plan import (
    Decision,
    IncomingText,
    VersionDecision,
    plan_versions,
)

HERE = Origin("rows.jsonl", 7)
UNIT = {
    "logical_unit_id": "u1",
    "document_id": "d1",
    "canonical_address": "A/1",
    "lifecycle_stage": "law",
    "title": "Điều 1",
    "body": "Nội dung",
}
MEMBER = {
    "thread_id": "t1",
    "logical_unit_id": "u1",
    "role": "canonical",
    "confidence": 1,
    "status": "confirmed",
}


def faults_of(table: LoadTable, **values: object) -> dict[str, str]:
    found = check_row(table, values, HERE)
    assert isinstance(found, list)
    return {fault.field: fault.reason for fault in found}


def unit_of(**values: object) -> UnitRow:
    checked = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, **values}, HERE)
    assert isinstance(checked, CheckedRow), checked
    assert isinstance(checked.row, UnitRow)
    return checked.row


# --- Rows ---


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"visibility": "semi-public"}, "visibility", "semi-public is not one of 'public'"),
        ({"lifecycle_stage": None}, "lifecycle_stage", "is missing"),
        ({"body": " \n\t"}, "body", "is empty"),
        ({"body": None}, "body", "is empty"),
        ({"body": "a\0b"}, "body", "contains a NUL character"),
        ({"body": "a\ud800b"}, "body", "half of a surrogate pair"),
        ({"title": "a\0b"}, "title", "contains a NUL character"),
        ({"logical_unit_id": " "}, "logical_unit_id", "is empty"),
        ({"revision": 0}, "revision", "greater than or equal to 1"),
        ({"created_at": "2025-30-01"}, "created_at", "month value is outside expected range"),
        ({"body": "x" * MAX_LINE_BYTES}, "body", "has a line of 1,000,000 bytes"),
        ({"document_id": True}, "document_id", "should be a valid string"),
    ],
)
def test_what_is_wrong_with_a_unit_is_named_by_field_and_reason(
    change: dict[str, object], field: str, reason: str
) -> None:
    assert reason in faults_of(LoadTable.LOGICAL_UNIT, **{**UNIT, **change})[field]


def test_every_fault_of_a_row_is_told_at_once() -> None:
    assert set(faults_of(LoadTable.LOGICAL_UNIT, **{**UNIT, "visibility": "x", "body": ""})) == {
        "visibility",
        "body",
    }


@pytest.mark.parametrize("confidence", [1.7, -0.1, "nan", "high", None])
def test_a_confidence_outside_zero_to_one_is_refused(confidence: object) -> None:
    assert "confidence" in faults_of(
        LoadTable.THREAD_MEMBERSHIP, **{**MEMBER, "confidence": confidence}
    )


@pytest.mark.parametrize("thread_id", ["t" * (MAX_CHARS["thread_id"] + 1), "t\n1", "\x1b[2J"])
def test_a_thread_that_no_event_could_name_is_refused(thread_id: str) -> None:
    assert faults_of(LoadTable.SEMANTIC_THREAD, thread_id=thread_id, title="Leave") == {
        "thread_id": "is no id of a thread, which has at most 600 characters and no line breaks or tabs"
    }


def test_a_membership_names_exactly_one_member() -> None:
    assert faults_of(LoadTable.THREAD_MEMBERSHIP, **{**MEMBER, "document_id": "d1"}) == {
        "": "needs exactly one of logical_unit_id, canonical_address and document_id"
    }


def test_a_line_just_below_the_limit_loads() -> None:
    assert len(unit_of(body="x" * (MAX_LINE_BYTES - 1)).body or "") == MAX_LINE_BYTES - 1


def test_text_is_nfc_with_unix_line_breaks_and_keeps_every_other_character() -> None:
    text = "Đie\u0302\u0300u\u00a01\u200b\r\nb\rc\x0bd\u2028e\ufeff"
    assert unit_of(body=text).body == "Điều\u00a01\u200b\nb\nc\x0bd\u2028e\ufeff"


def test_an_empty_flag_is_missing_and_not_a_fault() -> None:
    assert unit_of(visibility="").visibility is None


def test_a_fault_is_keyed_by_the_row_and_not_by_its_line() -> None:
    first = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, "body": ""}, Origin("f", 1))
    later = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, "body": ""}, Origin("f", 99))
    assert isinstance(first, list)
    assert isinstance(later, list)
    assert first[0].item_key == later[0].item_key == "tac_logical_unit:u1"


def test_keys_that_differ_only_far_behind_are_two_keys() -> None:
    long = "x" * 200
    one = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, "logical_unit_id": long + "1"}, HERE)
    two = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, "logical_unit_id": long + "2"}, HERE)
    assert isinstance(one, CheckedRow)
    assert isinstance(two, CheckedRow)
    assert one.key != two.key


@pytest.mark.parametrize("cell", ["a; b", "a,b", '["a", "b"]', ["a", "b"], ("a", "b")])
def test_a_list_reads_the_same_in_every_notation(cell: object) -> None:
    checked = check_row(
        LoadTable.PRODUCTION_DOCUMENT, {"document_id": "d", "title": "t", "tags": cell}, HERE
    )
    assert isinstance(checked, CheckedRow)
    assert isinstance(checked.row, DocumentRow)
    assert checked.row.tags == ("a", "b")


def test_an_edge_has_the_same_id_every_time() -> None:
    edge = {
        "source_kind": "unit",
        "source_id": "a",
        "target_kind": "unit",
        "target_id": "b",
        "edge_type": "x",
    }
    assert EdgeRow.model_validate(edge).id == EdgeRow.model_validate(edge).id
    assert EdgeRow.model_validate({**edge, "target_id": "c"}).id != EdgeRow.model_validate(edge).id


def test_an_instant_without_a_zone_is_read_as_utc_and_epoch_seconds_are_understood() -> None:
    naive = unit_of(created_at="2025-01-02T03:04:05").created_at
    epoch = unit_of(created_at=1735787045).created_at
    assert naive is not None
    assert naive == epoch
    assert naive.isoformat() == "2025-01-02T03:04:05+00:00"


# --- Doubles ---


def checked_unit(**values: object) -> CheckedRow:
    checked = check_row(LoadTable.LOGICAL_UNIT, {**UNIT, **values}, HERE)
    assert isinstance(checked, CheckedRow)
    return checked


def test_an_exact_repetition_is_no_fault() -> None:
    doubles = Doubles()
    assert [doubles.admit(checked_unit()), doubles.admit(checked_unit())] == [True, False]


def test_a_second_row_with_the_same_key_and_other_values_is_a_fault() -> None:
    doubles = Doubles()
    doubles.admit(checked_unit())
    assert isinstance(doubles.admit(checked_unit(body="other")), Fault)


def test_an_address_belongs_to_one_unit() -> None:
    doubles = Doubles()
    doubles.admit(checked_unit())
    fault = doubles.admit(checked_unit(logical_unit_id="u2"))
    assert isinstance(fault, Fault)
    assert (fault.field, fault.reason) == ("canonical_address", "A/1 was given before, to u1")


def test_an_event_that_arrives_again_later_is_the_same_event() -> None:
    event = {
        "event_id": "01a1e1b8-d448-786f-b5e3-67ad7f35de60",
        "occurred_at": "2026-11-16T00:00:00Z",
        "type": "query",
    }
    doubles = Doubles()
    verdicts: list[Fault | bool] = []
    for arrived in ("2026-11-16T00:00:01Z", "2026-11-17T00:00:00Z"):
        checked = check_row(LoadTable.METRIC_EVENT, {**event, "ingested_at": arrived}, HERE)
        assert isinstance(checked, CheckedRow)
        assert isinstance(checked.row, MetricEventRow)
        verdicts.append(doubles.admit(checked))
    assert verdicts == [True, False]


# --- Mapping ---


@pytest.mark.parametrize(
    "template",
    ["{a.__class__}", "{a[0]}", "{a!r}", "{}", "{a:>99999}", "{a:{b}}", "{a", "{0.real}"],
)
def test_a_template_reaches_nothing_but_columns(template: str) -> None:
    with pytest.raises(ValidationError):
        ColumnRule.model_validate({"template": template})


def test_a_template_pads_numbers_and_is_empty_when_a_part_is_missing() -> None:
    assert fill_template("{doc_id}#{seq:03}", {"doc_id": "d", "seq": 7}) == "d#007"
    assert fill_template("{doc_id}#{seq}", {"doc_id": "d", "seq": None}) is None
    assert fill_template("{doc_id}", {"doc_id": {"a": "dict"}}) is None


def test_braces_in_a_value_are_text() -> None:
    assert fill_template("<{a}>", {"a": "{b.__class__}", "b": 1}) == "<{b.__class__}>"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Final", "published"),
        (" final ", "published"),
        ("Rejected", "draft"),
        (None, "approved"),
        ("", "approved"),
    ],
)
def test_vocabulary_values_are_translated(status: object, expected: str) -> None:
    rule = ColumnRule.model_validate(
        {
            "column": "status",
            "values": {"Final": "published"},
            "otherwise": "draft",
            "default": "approved",
        }
    )
    assert rule.read({"status": status}) == expected


def test_a_word_that_no_rule_covers_stays_and_is_refused_by_the_row() -> None:
    rule = ColumnRule.model_validate({"column": "status", "values": {"Final": "published"}})
    assert rule.read({"status": "Rejected"}) == "Rejected"


def test_an_empty_text_stays_empty_so_that_it_is_refused_and_not_lost() -> None:
    assert ColumnRule.model_validate("text").read({"text": ""}) == ""


def test_the_first_filled_of_several_columns_counts() -> None:
    rule = ColumnRule.model_validate({"first_of": ["title", {"template": "No. {id}"}]})
    assert rule.read({"title": None, "id": 3}) == "No. 3"


def test_only_rows_that_pass_the_filter_are_taken() -> None:
    feed = Feed.model_validate(
        {
            "table": "tac_logical_unit",
            "columns": {},
            "where": {"lang": ["vi", "en"], "empty": False},
        }
    )
    assert feed.takes({"lang": "vi", "empty": False})
    assert not feed.takes({"lang": "fr", "empty": False})
    assert not feed.takes({"lang": "vi"})


def test_a_list_column_explodes_into_one_row_each() -> None:
    feed = Feed.model_validate(
        {
            "table": "thread_membership",
            "explode": "docs",
            "columns": {"thread_id": "id", "document_id": "docs"},
        }
    )
    assert [row["document_id"] for row in feed.translate({"id": "t", "docs": ["a", "b"]})] == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    "mapping",
    [
        {"tabels": []},
        {"tables": [{"file": "a.jsonl", "feeds": []}]},
        {"tables": [{"feeds": [{"table": "semantic_thread", "columns": {}}]}]},
        {"tables": [{"file": "a.jsonl", "feeds": [{"table": "pg_user", "columns": {}}]}]},
        {
            "tables": [
                {"file": "a", "feeds": [{"table": "semantic_thread", "columns": {"body": "x"}}]}
            ]
        },
        {"markdown": {"columns": {"visibilty": "x"}}},
        {"markdown": {"columns": {"title": {"column": "a", "value": "b"}}}},
    ],
)
def test_a_mapping_that_cannot_mean_anything_is_refused(mapping: object) -> None:
    with pytest.raises(ValidationError):
        SourceMapping.model_validate(mapping)


def test_the_mapping_of_the_documentation_is_a_mapping() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loading.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    mapping = SourceMapping.model_validate(yaml.safe_load(example))
    feed = mapping.tables[1].feeds[0]
    row = next(feed.translate({"nr": 7, "kind": "law", "heading": "H", "text": "T"}))
    assert row["logical_unit_id"] == "crm#007"
    assert row["lifecycle_stage"] == "law"


# --- Markdown ---

FRONT = """\
---
document_id: d1
title: Quy chế
language: vi
visibility: public
lifecycle_stage: law
address_prefix: QC-01
---
"""


def units(parsed: MarkdownDocument) -> list[UnitRow]:
    return [row.row for row in parsed.units if isinstance(row.row, UnitRow)]


def outline(text: str) -> list[tuple[str, str, str | None]]:
    parsed = read_markdown(text, "d.md")
    assert parsed.document, parsed.faults
    return [(unit.canonical_address, unit.title, unit.body) for unit in units(parsed)]


def reasons(text: str) -> list[str]:
    return [str(fault) for fault in read_markdown(text, "d.md").faults]


def test_headings_open_units_and_the_text_before_them_is_unit_0() -> None:
    text = (
        FRONT
        + "# Quy chế\n\nMở đầu.\n\n## Một {#mot}\n\nA\n\n## Hai\nB\n\n### Ba\n\nC\n#### Bốn\nD\n"
    )
    assert outline(text) == [
        ("QC-01/0", "Quy chế", "Mở đầu."),
        ("QC-01/mot", "Một", "A"),
        ("QC-01/2", "Hai", "B"),
        ("QC-01/2.1", "Ba", "C\n#### Bốn\nD"),
    ]


@pytest.mark.parametrize(
    "decoy",
    [
        "```\n## x\n```",
        "~~~~ md\n```\n## x\n~~~~",
        "    ## x",
        "> ## x",
        "- ## x",
        "\\## x",
        "##x",
        "<!--\n## x\n-->",
        "| a |\n|---|\n| ## x |",
    ],
)
def test_what_only_looks_like_a_heading_opens_nothing(decoy: str) -> None:
    assert outline(f"{FRONT}## Một\n\nA\n\n{decoy}\n\nB") == [
        ("QC-01/1", "Một", f"A\n\n{decoy}\n\nB")
    ]


def test_setext_headings_open_units() -> None:
    assert outline(f"{FRONT}Quy chế\n===\n\nMột\nhai\n---\n\nA") == [("QC-01/1", "Một hai", "A")]


def test_crlf_a_byte_order_mark_and_nfd_change_nothing() -> None:
    text = FRONT + "## Điều một\n\nA\n\nB\n"
    nasty = unicodedata.normalize("NFD", text).replace("\n", "\r\n")
    assert outline(nasty) == outline(text)


def test_a_section_hands_its_values_down_and_the_next_one_does_not_keep_them() -> None:
    parsed = read_markdown(
        FRONT + "## Một {visibility=internal}\nA\n### Hai {risk_class=high}\nB\n## Ba\nC\n", "d.md"
    )
    assert [(unit.visibility, unit.risk_class) for unit in units(parsed)] == [
        ("internal", None),
        ("internal", "high"),
        (None, None),
    ]


def test_a_unit_takes_stage_and_classification_from_the_front_matter() -> None:
    text = FRONT.replace("title:", "data_classification: secret\ntitle:") + "## Một\nA"
    unit = units(read_markdown(text, "d.md"))[0]
    assert (unit.lifecycle_stage, unit.data_classification) == ("law", "secret")


def test_a_heading_without_text_above_others_groups_them() -> None:
    parsed = read_markdown(FRONT + "## Chương I\n\n### Điều 1\n\nA\n", "d.md")
    assert parsed.grouping_headings == ("Chương I",)
    assert [unit.canonical_address for unit in units(parsed)] == ["QC-01/1.1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FRONT + "## Một\n\n## Hai\n\nA", "d.md:9 body: is empty"),
        (FRONT + "## Một {visibilty=internal}\nA", "d.md:9 visibilty: is no attribute of a unit"),
        (FRONT + "## Một {visibility=none}\nA", "d.md:9 visibility: none is not one of"),
        (FRONT + "## Một {#a}\nA\n## Hai {#a}\nB", "d.md:11 canonical_address: a is given twice"),
        (FRONT.replace("law", "lex") + "A", "d.md:6 lifecycle_stage: lex is not one of"),
        (FRONT.replace("title", "titel") + "A", "d.md:3 titel: is no front matter key"),
        (
            FRONT.replace("title: Quy chế", "updated_at: 2025-30-01") + "A",
            "d.md:3 updated_at: is no value",
        ),
        (
            FRONT.replace("title: Quy chế", "a: b: c") + "A",
            "d.md:3 (whole item): the front matter is not YAML",
        ),
        (
            FRONT.replace("title:", "visibility: internal\ntitle:") + "A",
            "d.md:6 visibility: is given twice",
        ),
        (FRONT, "d.md body: there is no text after the front matter"),
        ("", "d.md (whole item): the file is empty"),
        ("a\0b", "d.md (whole item): contains a NUL character"),
        ("x" * MAX_LINE_BYTES, "d.md (whole item): has a line of 1,000,000 bytes"),
        (
            "---\n- a\n---\nA",
            "d.md:1 (whole item): the front matter is no list of names and values",
        ),
        ("---\n" + "[" * 1500 + "\n---\nA", "d.md"),
        (FRONT.replace("law", "law\nunits: some") + "A", "d.md:7 units: is not one of"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_line_and_field(text: str, expected: str) -> None:
    assert any(reason.startswith(expected) for reason in reasons(text)), reasons(text)


def test_a_wrong_unit_leaves_the_others_of_its_file() -> None:
    parsed = read_markdown(FRONT + "## Một {visibility=x}\nA\n## Hai\nB", "d.md")
    assert parsed.document is not None
    assert [unit.canonical_address for unit in units(parsed)] == ["QC-01/2"]


@pytest.mark.parametrize("title", ["Hàm {x}", "Tập {a, b}", "{: .jekyll}", "Rỗng {}"])
def test_braces_that_are_no_attribute_block_stay_in_the_title(title: str) -> None:
    assert outline(f"{FRONT}## {title}\nA")[0][1] == title


def test_scalars_of_the_front_matter_are_taken_as_written() -> None:
    text = FRONT.replace("title: Quy chế", "title: 1.10").replace("language: vi", "language: no")
    document = read_markdown(text + "A", "d.md").document
    assert document is not None
    assert isinstance(document.row, DocumentRow)
    assert (document.row.title, document.row.language) == ("1.10", "no")


def test_a_file_without_front_matter_loads_and_stays_invisible() -> None:
    parsed = read_markdown("# Hướng dẫn\n\nA\n", "docs/a.md")
    assert parsed.document is not None
    row = parsed.document.row
    assert isinstance(row, DocumentRow)
    assert (row.document_id, row.title, row.visibility) == ("docs/a.md", "Hướng dẫn", None)
    assert [unit.canonical_address for unit in units(parsed)] == ["docs/a.md/0"]


def test_a_ruler_at_the_top_is_no_front_matter_unless_it_closes() -> None:
    assert outline("---\n\nA\n")[0][2] == "---\n\nA"


def test_foreign_front_matter_is_ignored_and_named() -> None:
    assert read_markdown("---\nlayout: page\n---\nA", "d.md").ignored_keys == {"layout"}


def test_a_mapping_reads_foreign_front_matter() -> None:
    mapping = MarkdownMapping.model_validate(
        {
            "columns": {
                "title": "tieu_de",
                "visibility": {"value": "internal"},
                "document_id": {"template": "x/{_stem}"},
            }
        }
    )
    document = read_markdown("---\ntieu_de: Quy chế\n---\nA", "a/d.md", mapping).document
    assert document is not None
    row = document.row
    assert isinstance(row, DocumentRow)
    assert (row.document_id, row.title, row.visibility) == ("x/d", "Quy chế", "internal")


def test_a_legacy_document_has_no_units() -> None:
    parsed = read_markdown(FRONT.replace("title:", "units: none\ntitle:") + "## Một\nA", "d.md")
    assert parsed.document is not None
    assert parsed.units == ()


def test_a_document_of_586_headings_keeps_them_all() -> None:
    text = "".join(f"## Điều {number}\n\nNội dung {number}\n\n" for number in range(586))
    assert len(read_markdown(text, "d.md").units) == 586


def test_nested_yaml_aliases_do_not_explode() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [" + ",".join([f"*{chr(97 + n)}"] * 9) + "]\n"
        for n in range(9)
    )
    assert read_markdown(f"---\n{bomb}tags: *j\n---\nA", "d.md").document is None


# --- Versions ---

NEW, UNCHANGED = Decision.NEW, Decision.UNCHANGED


@pytest.mark.parametrize(
    ("stored", "incoming", "expected"),
    [
        ({}, [IncomingText("a")], [(NEW, 1)]),
        ({1: "a"}, [IncomingText("a")], [(UNCHANGED, 1)]),
        ({1: "a"}, [IncomingText("b")], [(NEW, 2)]),
        ({1: "a", 2: "b"}, [IncomingText("a")], [(NEW, 3)]),
        ({}, [IncomingText("a", is_history=True), IncomingText("b")], [(NEW, 1), (NEW, 2)]),
        ({}, [IncomingText("a", is_history=True), IncomingText("a")], [(NEW, 1), (UNCHANGED, 1)]),
        ({1: "a", 2: "b"}, [IncomingText("a", is_history=True), IncomingText("b")], [(UNCHANGED, None), (UNCHANGED, 2)]),
        ({1: "b"}, [IncomingText("a", is_history=True), IncomingText("b")], [(Decision.TOO_OLD, None), (UNCHANGED, 1)]),
        ({5: "e"}, [IncomingText("c", 3)], [(NEW, 3)]),
        ({5: "e"}, [IncomingText("e", 5)], [(UNCHANGED, 5)]),
        ({5: "e"}, [IncomingText("f", 5)], [(Decision.CONFLICT, 5)]),
        ({5: "e"}, [IncomingText("f")], [(NEW, 6)]),
    ],
)  # fmt: skip
def test_a_text_becomes_a_version_when_it_says_something_new(
    stored: dict[int, str],
    incoming: list[IncomingText],
    expected: list[tuple[Decision, int | None]],
) -> None:
    assert plan_versions(stored, incoming) == [
        VersionDecision(decision, revision) for decision, revision in expected
    ]
