"""Where the words of questions are: nowhere that their mode and their age do not allow, in the database and in the home.

Method: questions with a word of their own in each mode, a night that makes what is made of questions, and then a look into every
column of every table and every file, whatever is to come. The database is another server's, so that the home holds only what we
write; what PostgreSQL keeps of deleted rows until it is vacuumed is its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from psycopg import sql
from pydantic import SecretStr

from cli.conftest import CommandLine
from fixtures_postgres import as_url, new_database
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.local_days import local_day
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.payloads import digest_text
from threadhouse.retrieval.query_keeping import QueryTextMode, question_key
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.serving.retrieval_service import Mode, Verdict
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.event_retention import RetentionRule, apply_retention
from threadhouse.stores.intake_proposals import list_proposals
from threadhouse.stores.lake import EventLake
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings

EMPLOYEE = lane_principal(Audience.EMPLOYEE)
WORDS = {mode: f"zyxqua{mode}" for mode in QueryTextMode}
FORMS = ("How is {0} repaired?", "Who repairs {0} here?", "When will {0} be repaired?")
ASKED = 2
"""Times that each is asked, by a session each time: six questions of three sessions or more are a proposal."""


@dataclass(frozen=True)
class House:
    """A home, and a database that is not in it."""

    threadhouse: CommandLine
    database: Database

    def settings(self, mode: QueryTextMode = QueryTextMode.STORE) -> Settings:
        return Settings(
            threadhouse_home=self.threadhouse.home,
            database_url=SecretStr(as_url(self.database)),
            query_text=mode,
        )

    def tables_that_hold(self, *traces: str) -> set[str]:
        """Tables with a row any column of which holds one of them, whatever its type; bytes are looked at as they are written."""
        written = [form for each in traces for form in (each, each.encode().hex())]
        found: set[str] = set()
        with self.database.connect() as connection:
            tables = connection.execute(
                "select table_schema, table_name from information_schema.tables"
                " where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')"
            ).fetchall()
            assert {("nao", "search_gap_signal"), ("public", "semantic_thread")} <= set(tables)
            for schema, table in tables:
                held = connection.execute(
                    sql.SQL(
                        "select from {} t where exists"
                        " (select from unnest(%s::text[]) trace where strpos(lower(t::text), trace) > 0)"
                    ).format(sql.Identifier(schema, table)),
                    (written,),
                ).fetchone()
                if held is not None:
                    found.add(f"{schema}.{table}")
        return found

    def files_that_hold(self, *traces: str) -> set[str]:
        """Files of the home that hold one of them; day files are unpacked."""
        found: set[str] = set()
        for folder, _, names in os.walk(self.threadhouse.home):
            for path in (Path(folder, name) for name in names):
                content = (
                    repr(pl.read_parquet(path).rows()).encode()
                    if path.suffix == ".parquet"
                    else written_bytes(path)
                )
                if any(each.encode() in content for each in traces):
                    found.add(str(path.relative_to(self.threadhouse.home)))
        return found


def written_bytes(path: Path) -> bytes:
    """What of a file was ever written: a vector store allocates its files by the hundred megabytes."""
    with path.open("rb") as file:
        pieces: list[bytes] = []
        end = 0
        while (begin := next_data(file.fileno(), end)) is not None:
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            file.seek(begin)
            pieces.append(file.read(end - begin))
    return b"".join(pieces)


def next_data(descriptor: int, offset: int) -> int | None:
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def questions(mode: QueryTextMode) -> list[str]:
    return [form.format(WORDS[mode]) for form in FORMS]


def traces(mode: QueryTextMode) -> list[str]:
    """The word, and what whoever guesses a question could compute without the secret and look for."""
    guesses = [question_key(EMPLOYEE.audience, text).rpartition("/")[2] for text in questions(mode)]
    return [WORDS[mode], *guesses, *(digest_text(text) for text in questions(mode))]


@pytest.fixture(scope="module")
def published(
    model_home: Path,
    postgres_server: Database,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[House, None, None]:
    """A hub of two units after its first night."""
    home = tmp_path_factory.mktemp("words_home")
    models_directory(home).symlink_to(models_directory(model_home))
    with new_database(postgres_server, template_database) as database:
        house = House(CommandLine(home), database)
        run(house, "load", write_hub(tmp_path_factory.mktemp("words_hub")))
        run(house, "nightly")
        yield house


@pytest.fixture(scope="module")
def house(published: House, embedder: FastembedEmbedder) -> House:
    """The hub after a second night, before which every mode was in force for a while."""
    for mode in QueryTextMode:
        ask(published, mode, embedder)
    run(published, "nightly")
    return published


def write_hub(folder: Path) -> Path:
    (folder / "rules.md").write_text(
        "---\ndocument_id: rules\ntitle: Rules\nlanguage: en\naddress_prefix: R\nunit_kind: clause\n"
        "lifecycle_stage: law\nvisibility: public\nreadiness: published\npublication_state: published\n"
        "risk_class: low\nauthority: enacted\n---\n# Rules\n\n## First\n\nBe kind.\n\n## Second\n\nBe brief.\n",
        encoding="utf-8",
    )
    return folder


def run(house: House, *arguments: str | Path) -> None:
    done = house.threadhouse(*arguments, DATABASE_URL=as_url(house.database))
    assert done.returncode == 0, done.stderr
    assert not any(word in done.stdout + done.stderr for word in WORDS.values())


def ask(house: House, mode: QueryTextMode, embedder: FastembedEmbedder) -> None:
    """Everything that a reader can do with a question."""
    with open_retrieval_service(house.settings(mode), embedder=embedder) as service:
        for text in questions(mode):
            for number in range(ASKED):
                session = f"{mode}-{number}-{FORMS.index(text.replace(WORDS[mode], '{0}'))}"
                answer = service.answer(text, EMPLOYEE, session_id=session)
                service.answer(text, EMPLOYEE, Mode.RAW, session_id=session)
                service.check_citations(
                    answer.pack.pack_id, ["R/first@9"], EMPLOYEE, session_id=session
                )
                for verdict in (Verdict.INSUFFICIENT, Verdict.MISSING_THREAD):
                    service.feedback(answer.query_id, verdict, EMPLOYEE)


def test_the_search_finds_what_there_is_in_columns_of_any_type_and_in_files(
    published: House,
) -> None:
    """Without this the others would pass with a search that finds nothing."""
    assert "public.tac_unit_version" in published.tables_that_hold("be brief.")
    found = published.files_that_hold("nightly_rebuild")
    assert {name.partition("/")[0] for name in found} >= {"dagster", "logs"}
    with published.database.connect() as connection:
        connection.execute("create table nao.of_tomorrow (held bytea, other jsonb)")
    try:
        for place, value in (("held", b"zyxqua"), ("other", '{"deep": ["ZYXqua"]}')):
            with published.database.connect() as connection:
                connection.execute("truncate nao.of_tomorrow")
                connection.execute(
                    sql.SQL("insert into nao.of_tomorrow ({}) values (%s)").format(
                        sql.Identifier(place)
                    ),
                    (value,),
                )
            assert "nao.of_tomorrow" in published.tables_that_hold("zyxqua")
    finally:
        with published.database.connect() as connection:
            connection.execute("drop table nao.of_tomorrow")


@pytest.mark.parametrize("mode", [QueryTextMode.HASH, QueryTextMode.DROP])
def test_words_that_are_not_to_be_kept_are_in_no_table_and_no_guess_can_be_confirmed(
    house: House, mode: QueryTextMode
) -> None:
    assert house.tables_that_hold(*traces(mode)) == set()


def test_words_that_are_kept_are_with_their_events_and_proposals(house: House) -> None:
    places = {"nao.retrieval_metric_event", "nao.thread_intake_proposal"}
    assert house.tables_that_hold(*traces(QueryTextMode.STORE)) == places


def test_words_are_in_no_file_whatever_is_kept(house: House) -> None:
    day_files = [name for name in house.files_that_hold("employee") if name.endswith(".parquet")]
    assert day_files
    assert (
        house.files_that_hold(*(each for mode in QueryTextMode for each in traces(mode))) == set()
    )


def test_words_that_have_become_too_old_leave_their_events_and_proposals_at_once(
    house: House,
) -> None:
    """Last: nothing holds a word any more."""
    settings = house.settings()
    with house.database.connect() as connection:
        (proposal,) = list_proposals(connection)
    assert proposal.lane is EMPLOYEE.audience
    assert any(WORDS[QueryTextMode.STORE] in text for text in proposal.queries)
    tomorrow = local_day(datetime.now(UTC) + timedelta(days=1), settings.zone)
    rule = RetentionRule(1, None, None)
    done = apply_retention(house.database, EventLake.open(settings), settings.zone, rule, tomorrow)
    assert done.words_forgotten == 2 * ASKED * len(FORMS)
    for mode in QueryTextMode:
        assert house.tables_that_hold(*traces(mode)) == set()
