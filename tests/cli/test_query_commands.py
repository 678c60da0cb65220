"""Asking from the command line: a readable answer, a document for programs, the id that feedback needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from content_house import ContentHouse
from hub_rows import add_document, add_unit
from threadhouse.pipelines import cli, cli_query
from threadhouse.retrieval.errors import LoadError
from threadhouse.retrieval.models import Audience
from threadhouse.serving.retrieval_service import Mode, Verdict
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.judged_queries import JudgedQuery, read_judged_queries
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.vector_cache import PostgresVectorCache


def test_the_words_on_the_command_line_are_those_of_the_code() -> None:
    assert tuple(Audience) == cli_query.AUDIENCES
    assert tuple(Mode) == cli_query.MODES
    assert tuple(Verdict) == cli_query.VERDICTS


@pytest.fixture
def house(
    database: Database,
    tmp_path: Path,
    model_home: Path,
    embedder: FastembedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> ContentHouse:
    """Two units of one document, published with the real model, and the settings that lead there."""
    house = ContentHouse(database, tmp_path, engine="edge")
    with house.connect() as connection:
        add_document(connection, "leave")
        add_unit(connection, "L.1", "leave", "Nhân viên được nghỉ phép mười hai ngày mỗi năm.")
        add_unit(connection, "L.2", "leave", "Khách hàng được hoàn tiền trong bảy ngày.")
        policy = KnowledgeReader(connection).policy()
    with house.writer() as store:
        cached = CachedEmbedder(embedder, PostgresVectorCache(database))
        publish_content(database, store, cached, policy, tmp_path)
    (tmp_path / "models").symlink_to(model_home / "models", target_is_directory=True)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", database.conninfo)
    return house


def test_a_raw_search_is_answered_explained_and_judged(
    house: ContentHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["query", "nghỉ phép mấy ngày", "--audience", "customer", "--mode", "raw", "--explain"]
    assert cli.run(ask) == 0
    page = capsys.readouterr().out
    assert page.index("> Nhân viên được nghỉ phép") < page.index("> Khách hàng được hoàn tiền")
    assert "`L.1@1`" in page
    assert "Filtered by access or version after the search: 0." in page
    assert cli.run([*ask, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["pack"]["recommended_reading_order"][0] == "L.1"
    assert answer["explain"]["filtered_count"] == 0
    judge = ["feedback", answer["query_id"], "sufficient", "--audience", "customer"]
    assert cli.run(judge) == 0
    assert "Noted: sufficient" in capsys.readouterr().out
    assert house.rows("select type from nao.retrieval_metric_event order by ingest_seq") == [
        ("query",),
        ("query",),
        ("sufficiency_verdict",),
    ]


def test_there_is_no_answer_without_an_audience(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["query", "nghỉ phép"]) == cli.EXIT_USAGE
    assert "--audience" in capsys.readouterr().err


def test_an_unknown_query_cannot_be_judged(
    house: ContentHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    assert cli.run(["feedback", unknown, "noisy", "--audience", "customer"]) == cli.EXIT_FAILED
    assert unknown in capsys.readouterr().err


def test_judged_queries_are_read_from_a_file_and_from_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "judged.jsonl"
    file.write_text('{"text": "q", "thread_ids": ["t1"]}\n\n{"text": "r", "thread_ids": []}\n')
    assert read_judged_queries(file) == [
        JudgedQuery("judged.jsonl:1", "q", frozenset({"t1"})),  # pyright: ignore[reportArgumentType]
        JudgedQuery("judged.jsonl:3", "r", frozenset()),
    ]
    (tmp_path / "queries.jsonl").write_text(
        '{"query_id": "a", "text": "q"}\n{"query_id": "b", "text": "r"}\n'
    )
    (tmp_path / "qrels.jsonl").write_text(
        '{"query_id": "a", "target_id": "t1", "target_kind": "thread", "grade": 1}\n'
        '{"query_id": "b", "target_id": "u1", "target_kind": "unit", "grade": 1}\n'
    )
    assert read_judged_queries(tmp_path) == [
        JudgedQuery("a", "q", frozenset({"t1"}))  # pyright: ignore[reportArgumentType]
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"text": ""}', '{"text": "q"}', '{"thread_ids": []}'])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "judged.jsonl"
    file.write_text('{"text": "q", "thread_ids": []}\n' + line)
    with pytest.raises(LoadError, match="line 2"):
        read_judged_queries(file)
    with pytest.raises(LoadError, match="does not exist"):
        read_judged_queries(tmp_path / "absent.jsonl")
