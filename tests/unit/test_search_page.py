"""docs/search.md says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadhouse.retrieval import search
from threadhouse.retrieval.bm25 import PAIR_WEIGHT
from threadhouse.retrieval.fusion import BACKGROUND_RANK, FusionWeights, weights_for
from threadhouse.retrieval.query_text import QueryLanguage
from threadhouse.retrieval.rerank import BOOSTS

PAGE = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
ROWS = {
    "vi → vi": [(QueryLanguage.VIETNAMESE, "vi")],
    "vi without marks → vi": [(QueryLanguage.VIETNAMESE_UNMARKED, "vi")],
    "en → en": [(QueryLanguage.ENGLISH, "en")],
    "vi → en, en → vi": [(QueryLanguage.VIETNAMESE, "en"), (QueryLanguage.ENGLISH, "vi")],
    "vi without marks → en": [(QueryLanguage.VIETNAMESE_UNMARKED, "en")],
}


def cells_of(first: str) -> list[str]:
    lines = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    assert len(lines) == 1, first
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


@pytest.mark.parametrize("row", ROWS)
def test_the_page_has_the_weights_of_the_code(row: str) -> None:
    dense, accented, folded, names = (float(cell or 0) for cell in cells_of(row)[1:5])
    for language, document in ROWS[row]:
        assert weights_for(language, document) == FusionWeights(dense, accented, folded, names)


def test_the_page_names_every_boost_and_the_numbers_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert all(boost.name in text for boost in BOOSTS)
    assert f"The {search.CANDIDATES} nearest vectors" in text
    assert f"the {BACKGROUND_RANK}th best of both languages" in text
    assert f"a pair weighs {PAIR_WEIGHT} in a Vietnamese question" in text
