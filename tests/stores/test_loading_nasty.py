"""Real files that break document pipelines: each loads without losing a character, or is refused or skipped with a reason."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from threadhouse.stores.loading import LoadReport, load_path
from threadhouse.stores.postgres import Database

NASTY = Path(__file__).parents[3] / "shared" / "data" / "nasty" / "files"

# Between two kept pieces of text only heading marks and an attribute block may stand.
MARKUP = re.compile(r"[\s#=-]*(\{[^{}]*\})?[\s#=-]*")


@pytest.fixture
def nasty() -> Path:
    if not NASTY.is_dir():
        pytest.skip("needs the nasty files, looked for beside the checkout at ../shared/data/nasty")
    return NASTY


def kept_texts(database: Database, document_id: str) -> list[tuple[str, str]]:
    """Title and body of each unit; no title for a text before the headings, whose title is the document's."""
    with database.connect() as connection:
        return connection.execute(
            "select case when canonical_address like '%%/0' then '' else title end, body"
            " from source.information_unit where document_id = %s order by ordinal",
            [document_id],
        ).fetchall()


def document_title(database: Database, document_id: str) -> str:
    with database.connect() as connection:
        row = connection.execute(
            "select title from production_document where document_id = %s", [document_id]
        ).fetchone()
    return row[0] if row else ""


def source_text(path: Path) -> str:
    """The file after its front matter, cut off without the loader's help."""
    text = unicodedata.normalize("NFC", path.read_bytes().decode("utf-8-sig"))
    text = text.replace("\r\n", "\n")
    return re.sub(r"\A---\n.*?\n(---|\.\.\.)[ ]*\n", "", text, flags=re.DOTALL)


def lost_text(source: str, pieces: list[str]) -> list[str]:
    """What stands between the pieces in the source and is more than markup."""
    lost: list[str] = []
    position = 0
    for piece in pieces:
        found = source.find(piece, position)
        assert found >= 0, f"kept text is not in the source in this order: {piece[:80]!r}"
        gap = source[position:found]
        if not MARKUP.fullmatch(gap):
            lost.append(gap)
        position = found + len(piece)
    rest = source[position:]
    return lost if MARKUP.fullmatch(rest) else [*lost, rest]


def refused_headings(report: LoadReport, file: str) -> set[str]:
    """The headings that the report names as having no text, by its line numbers."""
    lines = (NASTY / file).read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    numbers = [fault.origin.line for fault in report.quarantined if fault.origin.file == file]
    return {unicodedata.normalize("NFC", lines[line - 1]).strip("# ") for line in numbers if line}


def test_every_file_is_loaded_refused_or_skipped(database: Database, nasty: Path) -> None:
    report = load_path(database, nasty)
    with database.connect() as connection:
        loaded = {row[0] for row in connection.execute("select path from production_document")}
    refused = {fault.origin.file for fault in report.quarantined if fault.origin.line is None}
    skipped = {file.file for file in report.skipped}
    assert loaded | refused | skipped == {path.name for path in nasty.iterdir()}
    assert refused == {"empty.txt"}
    assert skipped == {path.name for path in nasty.iterdir() if path.suffix not in {".md", ".txt"}}


def test_no_character_of_a_loaded_file_is_lost(database: Database, nasty: Path) -> None:
    report = load_path(database, nasty)
    for path in sorted(nasty.iterdir()):
        pieces = [piece for unit in kept_texts(database, path.name) for piece in unit]
        if not pieces:
            continue
        lines = [
            line.strip("#=- ")
            for gap in lost_text(source_text(path), pieces)
            for line in gap.split("\n")
        ]
        named = {*refused_headings(report, path.name), document_title(database, path.name)}
        unexplained = [line for line in lines if line and line not in named]
        notes = [note for note in report.notes if note.startswith(f"{path.name}: ")]
        grouping = int(notes[0].split()[1]) if notes else 0
        assert len(unexplained) == grouping, (path.name, unexplained)


def test_loading_them_again_writes_nothing(database: Database, nasty: Path) -> None:
    load_path(database, nasty)
    assert load_path(database, nasty).write_count == 0


@pytest.mark.parametrize(
    ("name", "characters"),
    [("kep5307_zero_width.md", "\u200b\u200c\u200d\ufeff\u2060"), ("vi_nbsp.md", "\u00a0")],
)
def test_invisible_characters_are_kept(
    database: Database, nasty: Path, name: str, characters: str
) -> None:
    load_path(database, nasty / name)
    kept = "".join(title + body for title, body in kept_texts(database, name))
    source = source_text(nasty / name)
    assert sum(map(source.count, characters)) > 0
    assert [kept.count(mark) for mark in characters] == [source.count(mark) for mark in characters]


def test_all_586_headings_of_the_penal_code_are_accounted_for(
    database: Database, nasty: Path
) -> None:
    report = load_path(database, nasty / "vi_tone_mix_hinh_su.md")
    assert len(kept_texts(database, "vi_tone_mix_hinh_su.md")) == 584
    assert len(report.quarantined) == 1
    assert report.notes[0].startswith("vi_tone_mix_hinh_su.md: 1 headings only group others")


def test_svg_and_html_load_as_text_when_they_are_named_as_text(
    database: Database, nasty: Path, tmp_path: Path
) -> None:
    for name in ("go_one_line_886k.svg", "go_crlf.svg", "vi_bom_crlf.html"):
        (tmp_path / f"{name}.txt").write_bytes((nasty / name).read_bytes())
    report = load_path(database, tmp_path)
    assert report.quarantined == []
    for path in tmp_path.iterdir():
        kept = "".join(body for _, body in kept_texts(database, path.name))
        assert "".join(kept.split()) == "".join(source_text(path).split())
