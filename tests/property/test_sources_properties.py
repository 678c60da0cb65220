"""What holds of every source text: nothing is lost, and saying it twice says nothing new."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.markdown_units import read_markdown
from threadhouse.retrieval.source_mapping import fill_template
from threadhouse.retrieval.sources import UnitRow, normalise_text
from threadhouse.retrieval.version_plan import Decision, IncomingText, plan_versions

# Markup that opens, closes or hides headings, mixed with letters in both normal forms.
LINES = st.lists(
    st.sampled_from(
        [
            "## Điều 1", "### Khoản", "# Tên", "#### Bốn", "## Một {#mot}", "```", "~~~", "> ## x",
            "- ## y", "    ## z", "Nội dung", unicodedata.normalize("NFD", "Nội dung"), "", "---", "===",
            "| a | b |", "|---|---|", "<!--", "-->", "a\u200bb\u00a0c", "\tx", "## ", "{#x}",
        ]
    ),
    max_size=25,
)  # fmt: skip
HASHES = st.sampled_from("abc")


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_every_unit_is_a_slice_of_its_document(lines: list[str], newline: str) -> None:
    text = newline.join(lines)
    source = normalise_text(text)
    position = 0
    for checked in read_markdown(text, "d.md").units:
        assert isinstance(checked.row, UnitRow)
        body = checked.row.body or ""
        found = source.find(body, position)
        assert found >= 0
        position = found + len(body)


@given(LINES)
def test_every_line_of_text_is_in_a_unit_or_in_what_was_refused_or_is_a_heading(
    lines: list[str],
) -> None:
    parsed = read_markdown("\n".join(lines), "d.md")
    if parsed.document is None:
        return
    kept = "\n".join(
        checked.row.body or "" for checked in parsed.units if isinstance(checked.row, UnitRow)
    )
    # The second unit of an id given twice is refused with its text, which the document keeps.
    is_doubled = any("given twice" in fault.reason for fault in parsed.faults)
    for wanted in ("a\u200bb\u00a0c", "| a | b |", "#### Bốn", "> ## x"):
        if not is_doubled and lines.count(wanted):
            assert kept.count(wanted) >= _count_outside_headings(lines, wanted)


def _count_outside_headings(lines: list[str], wanted: str) -> int:
    """How often a line stands where it cannot be part of a setext heading."""
    underlines = {"---", "===", "|---|---|"}
    if underlines & set(lines):
        return 0
    return lines.count(wanted)


@given(LINES)
def test_cutting_the_same_text_again_gives_the_same_units(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert read_markdown(text, "d.md") == read_markdown(unicodedata.normalize("NFD", text), "d.md")


@given(st.text())
def test_any_text_is_a_document_or_a_fault(text: str) -> None:
    parsed = read_markdown(text, "d.md")
    assert parsed.document or parsed.faults


@given(st.dictionaries(st.integers(1, 6), HASHES), st.lists(st.tuples(HASHES, st.integers(1, 6))))
def test_stated_revisions_loaded_twice_change_nothing(
    stored: dict[int, str], incoming: list[tuple[str, int]]
) -> None:
    texts = [IncomingText(content, revision) for content, revision in incoming]
    after = dict(stored)
    for text, decision in zip(texts, plan_versions(stored, texts), strict=True):
        if decision.decision is Decision.NEW and decision.revision:
            after[decision.revision] = text.content_hash
    assert all(decision.decision is not Decision.NEW for decision in plan_versions(after, texts))
    assert stored.items() <= after.items()


@given(st.lists(HASHES, min_size=1, max_size=4))
def test_a_series_of_texts_loaded_twice_changes_nothing(contents: list[str]) -> None:
    texts = [
        IncomingText(content, is_history=number < len(contents) - 1)
        for number, content in enumerate(contents)
    ]
    after: dict[int, str] = {}
    for text, decision in zip(texts, plan_versions({}, texts), strict=True):
        if decision.decision is Decision.NEW and decision.revision:
            after[decision.revision] = text.content_hash
    assert after[max(after)] == contents[-1]
    assert all(decision.decision is Decision.UNCHANGED for decision in plan_versions(after, texts))


@given(st.text(), st.text(alphabet="abc_", min_size=1))
def test_a_template_never_interprets_a_value(value: str, column: str) -> None:
    assert fill_template(f"<{{{column}}}>", {column: value}) == (f"<{value}>" if value else None)
