"""Stored names and asked names are brought into one form by two languages; they must agree on every text."""

from __future__ import annotations

from collections.abc import Generator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import TupleRow

from threadhouse.retrieval.bm25 import TermForm, split_terms
from threadhouse.retrieval.references import phrase_key, reference_key
from threadhouse.stores.postgres import Database

NAMES = [
    "Điều 20.2.LQ.1",
    "Đ32",
    "dieu 32",
    "Article 5",
    "PEP 484",
    "pep-0484",
    "PEP 1 § What is a PEP?",
    "TH-SOP-01/2@3",
    "TH–SOP–01/2",
    "45/2019/QH14",
    "12/2022/NĐ-CP",
    "A-1-2",
    "«Hòa-bình»…",
    "thoả thuận, ủy ban, quý",
    "a\u00a0b\u200bc\td",
    "x_y-0z",
    "Ⅷ ﬁ ½",
]
# Letters of both languages, every kind of separator, and the marks by themselves: what addresses and titles are made of.
TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from("aAbdDđĐeEoOuUyYàáảãạằốộợủỵ0123456789"),
        st.sampled_from(" .,;:!?()[]{}\"'`/§#*-_@~\u00a0\u2013\u201c\u200b\t\n\u0300\u0301\u0323"),
        st.characters(min_codepoint=0x20, max_codepoint=0x24F),
    ),
    max_size=60,
)


@pytest.fixture(scope="module")
def connection(
    postgres_server: Database, template_database: str
) -> Generator[psycopg.Connection[TupleRow], None, None]:
    from fixtures_postgres import new_database

    with new_database(postgres_server, template_database) as database, database.connect() as open_:
        yield open_


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_one_reference_key_in_both_languages(
    connection: psycopg.Connection[TupleRow], name: str
) -> None:
    row = connection.execute("select nao.reference_key(%s)", (name,)).fetchone()
    assert row == (reference_key(name),)


@given(text=TEXTS)
def test_any_text_has_one_reference_key_in_both_languages(
    connection: psycopg.Connection[TupleRow], text: str
) -> None:
    row = connection.execute("select nao.reference_key(%s)", (text,)).fetchone()
    assert row == (reference_key(text),)


@given(text=TEXTS)
def test_any_text_has_one_phrase_key_in_both_languages(
    connection: psycopg.Connection[TupleRow], text: str
) -> None:
    row = connection.execute("select nao.phrase_key(%s)", (text,)).fetchone()
    assert row == (phrase_key(text),)


@pytest.mark.parametrize("name", NAMES)
def test_words_with_marks_are_split_alike_in_both_languages(
    connection: psycopg.Connection[TupleRow], name: str
) -> None:
    row = connection.execute("select nao.marked_words(%s)", (name,)).fetchone()
    assert row is not None
    assert split_terms(row[0], TermForm.ACCENTED) == split_terms(name, TermForm.ACCENTED)
