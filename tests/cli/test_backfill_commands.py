"""``threadhouse backfill vectors|centroids|packs|reports`` as operators run them, on the sample hub after its first night.

What a backfill builds again is as it was, so the house stays as the session's other tests expect it.
"""

from __future__ import annotations

import json
import signal
from typing import Any, LiteralString

import psycopg
import pytest

from cli.conftest import CommandLine
from threadhouse.stores import embedded_postgres


def built(house: CommandLine, *arguments: str) -> dict[str, Any]:
    done = house("backfill", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask(house: CommandLine, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(embedded_postgres.status(house.home).conninfo()) as connection:
        return connection.execute(statement, values).fetchall()


@pytest.fixture(scope="module")
def document(sample_hub: CommandLine) -> tuple[str, int, int]:
    """A document with its number of units and of their chunks."""
    ((name, units, chunks),) = ask(
        sample_hub,
        "select u.document_id, count(*), sum(p.chunk_count)::int from source.information_unit u"
        " join nao.vector_projection p on p.owner_id = u.logical_unit_id and p.collection = 'information_units'"
        " group by 1 order by 1 limit 1",
    )
    return name, units, chunks


def test_vectors_of_a_document_are_written_again_from_the_cache(
    sample_hub: CommandLine, document: tuple[str, int, int]
) -> None:
    name, units, chunks = document
    cost = built(sample_hub, "vectors", "--document", name, "--dry-run")
    assert (cost["units"], cost["chunks"], cost["texts_to_embed"]) == (units, chunks, 0)
    assert cost["is_estimate"] is False
    before = ask(sample_hub, "select max(published_at) from nao.vector_projection")
    figures = built(sample_hub, "vectors", "--document", name)["figures"]
    assert (figures["owners_published"], figures["chunks_written"]) == (units, chunks)
    assert (figures["texts_embedded"], figures["points_deleted"]) == (0, 0)
    after = ask(
        sample_hub,
        "select count(*) from nao.vector_projection where published_at > %s",
        before[0][0],
    )
    assert after == [(units,)]
    assert sample_hub("audit").returncode == 0


def test_centroids_and_packs_of_a_lane_are_built_again_and_come_out_as_they_were(
    sample_hub: CommandLine,
) -> None:
    ((seen,),) = ask(
        sample_hub,
        "select count(distinct thread_id) from nao.thread_context_pack_cache where lane = 'customer'",
    )
    cost = built(sample_hub, "packs", "--lane", "customer", "--dry-run")
    assert (cost["threads"], cost["packs"]) == (seen, seen * 4)
    assert cost["estimated_seconds"] >= 0
    packs = built(sample_hub, "packs", "--lane", "customer")["figures"]
    assert (packs["threads_due"], packs["written"], packs["deleted"]) == (seen, 0, 0)
    centroids = built(sample_hub, "centroids", "--lane", "customer")["figures"]
    assert centroids["written"] >= seen
    assert centroids["deleted"] == 0


def test_everything_can_be_built_again_and_says_what_it_would_cost(sample_hub: CommandLine) -> None:
    ((units,),) = ask(sample_hub, "select count(*) from source.information_unit")
    said = sample_hub("backfill", "vectors", "--everything", "--dry-run")
    assert f"would build {units} units" in said.stdout
    assert "0 texts to embed; about " in said.stdout
    figures = built(sample_hub, "vectors", "--everything")["figures"]
    assert figures["owners_published"] >= units
    assert figures["texts_embedded"] == 0


def test_a_backfill_that_was_killed_is_finished_by_the_same_command(
    sample_hub: CommandLine,
) -> None:
    process = sample_hub.start("backfill", "vectors", "--everything")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Embedding"):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert built(sample_hub, "vectors", "--everything")["figures"]["texts_embedded"] == 0
    assert sample_hub("audit").returncode == 0


def test_reports_of_a_range_are_built(sample_hub: CommandLine) -> None:
    ((first, last),) = ask(
        sample_hub, "select min(report_day)::text, max(report_day)::text from nao.health_report"
    )
    done = built(sample_hub, "reports", "--from", first, "--to", last)
    assert last in str(done["figures"]["days"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("vectors",), 2, "say what to build again"),
        (("vectors", "--everything", "--unit", "x"), 2, "--everything takes nothing else"),
        (("vectors", "--from", "2026-01-02"), 2, "give --from and --to together"),
        (("packs", "--from", "2026-01-02", "--to", "2026-01-01"), 2, "the earlier day to --from"),
        (("vectors", "--unit", "no-such"), 1, "There is no unit no-such; nothing was done."),
        (("centroids", "--thread", "no-such"), 1, "There is no thread no-such"),
        (("vectors", "--from", "2001-01-01", "--to", "2001-01-01"), 1, "Nothing is selected"),
        (("packs", "--lane", "everybody"), 2, "everybody"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_sentence(
    sample_hub: CommandLine, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = sample_hub("backfill", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
