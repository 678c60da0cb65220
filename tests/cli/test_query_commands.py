"""Asking from the command line: a readable answer, a document for programs, the id that feedback needs."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from content_house import ContentHouse
from hub_rows import add_document, add_unit
from threadhouse.pipelines import cli, cli_gaps, cli_principal, cli_proposals, cli_query
from threadhouse.retrieval.errors import LoadError
from threadhouse.retrieval.gap_signals import GapKind
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.question_clusters import ProposalStatus
from threadhouse.serving.retrieval_service import Mode, Verdict
from threadhouse.serving.tokens import Grant, PrincipalTokens
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.judged_queries import JudgedQuery, read_judged_queries
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import create_key, read_token_keys, retire_key
from threadhouse.stores.vector_cache import PostgresVectorCache

CUSTOMER = ("--audience", "customer", "--as-operator")


def test_the_words_on_the_command_line_are_those_of_the_code() -> None:
    assert tuple(Audience) == cli_principal.AUDIENCES
    assert tuple(Mode) == cli_query.MODES
    assert tuple(Verdict) == cli_query.VERDICTS
    assert tuple(GapKind) == cli_gaps.KINDS
    assert tuple(ProposalStatus) == cli_proposals.STATUSES


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
    with house.writer() as store:
        cached = CachedEmbedder(embedder, PostgresVectorCache(database))
        publish_content(database, store, cached, tmp_path)
    (tmp_path / "models").symlink_to(model_home / "models", target_is_directory=True)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", database.conninfo)
    return house


def test_a_raw_search_is_answered_explained_and_judged(
    house: ContentHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["query", "nghỉ phép mấy ngày", *CUSTOMER, "--mode", "raw", "--explain"]
    assert cli.run(ask) == 0
    page = capsys.readouterr().out
    assert page.index("> Nhân viên được nghỉ phép") < page.index("> Khách hàng được hoàn tiền")
    assert "`L.1@1`" in page
    assert "Filtered by access or version after the search: 0." in page
    assert cli.run([*ask, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["pack"]["recommended_reading_order"][0] == "L.1"
    assert answer["explain"]["filtered_count"] == 0
    judge = ["feedback", answer["query_id"], "sufficient", *CUSTOMER]
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


def test_an_audience_is_taken_on_trust_only_from_an_operator_when_a_server_is_set(
    house: ContentHouse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["query", "nghỉ phép", "--audience", "customer", "--mode", "raw"]
    assert cli.run(ask) == cli.EXIT_FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "DATABASE_URL is set; give a token" in said.err
    assert "--as-operator" in said.err
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("DATABASE_URL")
    assert cli.run(ask) == cli.EXIT_FAILED
    assert "QDRANT_URL is set" in capsys.readouterr().err


def test_a_token_says_whose_rights_apply(
    house: ContentHouse,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    settings = Settings.from_environment()
    create_key(settings)
    grant = Grant("anna", Audience.CUSTOMER)
    token = PrincipalTokens(settings).issue(grant, timedelta(minutes=5))
    file = tmp_path / "token"
    file.write_text(token + "\n")
    ask = ["query", "nghỉ phép mấy ngày", "--mode", "raw"]
    assert cli.run([*ask, "--token-file", str(file)]) == 0
    page = capsys.readouterr().out
    assert "`L.1@1`" in page
    assert token not in page
    assert f"sufficient --token-file {file}" in page
    monkeypatch.setenv("THREADHOUSE_TOKEN", token)
    assert cli.run([*ask, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["pack"]["lane"] == "customer"
    assert cli.run(["feedback", answer["query_id"], "noisy"]) == 0
    retire_key(settings, read_token_keys(settings).keys[0].key_id)
    assert cli.run(ask) == cli.EXIT_FAILED
    said = capsys.readouterr().err
    assert "names no key that is trusted here" in said
    assert token not in said


@pytest.mark.parametrize(
    "options",
    [
        ["--audience", "customer", "--token-file", "x"],
        ["--as-operator"],
        ["--as-operator", "--token-file", "x"],
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["query", "nghỉ phép", *options]) == cli.EXIT_USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_query_cannot_be_judged(
    house: ContentHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    assert cli.run(["feedback", unknown, "noisy", *CUSTOMER]) == cli.EXIT_FAILED
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
