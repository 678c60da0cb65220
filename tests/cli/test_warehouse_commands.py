"""``threadhouse sql`` and ``threadhouse backfill`` as people run them."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import duckdb
import pytest

from cli.conftest import CommandLine
from threadhouse.retrieval.metrics import COUNTED
from threadhouse.stores.analytics import ANALYTICS_FILE
from threadhouse.stores.lake import TABLE

HITS = (
    "select local_day, numerator, denominator, rate, requires_instrumentation from daily_rates "
    "where metric = 'thread_hit_rate' and lane = 'overall' and thread_id = '' order by 1"
)


def test_the_warehouse_answers_in_three_forms(sample_hub: CommandLine) -> None:
    table = sample_hub("sql", HITS)
    assert table.returncode == 0, table.stderr
    head, _, *rows, count = table.stdout.splitlines()
    assert head.split() == [
        "local_day",
        "numerator",
        "denominator",
        "rate",
        "requires_instrumentation",
    ]
    assert count == f"({len(rows)} rows)"
    records = json.loads(sample_hub("sql", HITS, "--format", "json").stdout)
    listed = list(csv.DictReader(StringIO(sample_hub("sql", HITS, "--format", "csv").stdout)))
    assert [row["local_day"] for row in records] == [row["local_day"] for row in listed]
    assert [str(row["numerator"]) for row in records] == [row["numerator"] for row in listed]
    assert len(rows) == len(records)


@pytest.fixture
def asked(tmp_path: Path) -> CommandLine:
    """A home with an analysts' file that holds nothing: answers of statements about no table are the same everywhere."""
    (tmp_path / "lake" / TABLE).mkdir(parents=True)
    duckdb.connect(tmp_path / "lake" / ANALYTICS_FILE).close()
    return CommandLine(tmp_path)


def test_json_is_valid_whatever_is_asked(asked: CommandLine) -> None:
    done = asked(
        "sql",
        """select map {date '2026-01-01': 'nan'::double} as days, [{'x': '-inf'::double}] as rates, 1 as n, 2 as n,
           '2026-01-01'::date as day, null as nothing, e'"\n\x1b' as text, 170141183460469231731687303715884105727 as huge,
           true as yes, map {[1]: 2} as lists, interval 1 day as span, 'x'::blob as bytes""",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert record.pop("lists")
    assert record.pop("bytes")
    assert record == {
        "days": {"2026-01-01": "nan"},
        "rates": [{"x": "-inf"}],
        "n": 1,
        "n_1": 2,
        "day": "2026-01-01",
        "nothing": None,
        "text": '"\n\x1b',
        "huge": 2**127 - 1,
        "yes": True,
        "span": "1 day, 0:00:00",
    }
    assert json.loads(asked("sql", "select 1 where false", "--format", "json").stdout) == []
    failed = asked("sql", "select range::utinyint from range(300, 303)", "--format", "json")
    assert (failed.returncode, failed.stdout) == (1, "")


def test_nothing_in_a_table_or_an_error_steers_the_terminal(asked: CommandLine) -> None:
    hidden = "chr(27) || ']0;x' || chr(7) || chr(155) || chr(127) || chr(8238) || chr(13) || chr(10) || chr(9) || 'y'"
    done = asked("sql", f'select {hidden} as text, 1 as "\x1b[2J"')
    assert done.returncode == 0, done.stderr
    head, _, row, _ = done.stdout.split("\n")[:4]
    assert "<U+001B>[2J" in head
    assert row.split() == [
        r"<U+001B>]0;x<U+0007><U+009B><U+007F><U+202E><U+000D>\n\ty",
        "1",
    ]
    assert done.stdout.replace("\n", "").isprintable()
    failed = asked("sql", "select '\x1b[2J'::int")
    assert "<U+001B>[2J" in failed.stderr
    assert failed.stderr.rstrip("\n").isprintable()


def test_a_wrong_statement_is_one_sentence(sample_hub: CommandLine) -> None:
    done = sample_hub("sql", "select nothing from events")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("threadhouse: The statement cannot be run: ")
    assert done.stderr.count("\n") == 1


def test_a_home_without_a_night_says_what_to_do(untouched: CommandLine) -> None:
    done = untouched("sql", "select 1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "run threadhouse nightly" in done.stderr
    assert not untouched.home.exists()


def test_a_backfill_of_days_that_are_as_they_were_changes_no_figure(
    sample_hub: CommandLine,
) -> None:
    before = sample_hub("sql", HITS, "--format", "csv").stdout
    first, last = (before.splitlines()[number].split(",")[0] for number in (1, -1))
    done = sample_hub("backfill", "metrics", "--from", first, "--to", last, "--json")
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)["assets"]["retrieval_metrics_daily"]
    assert (rates["days_counted"], rates["rows_restated"]) == ("none", 0)


def test_a_recount_counts_days_that_are_as_they_were(sample_hub: CommandLine) -> None:
    before = sample_hub("sql", HITS, "--format", "csv").stdout
    day = before.splitlines()[1].split(",")[0]
    done = sample_hub("backfill", "metrics", "--from", day, "--to", day, "--recount", "--json")
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)["assets"]["retrieval_metrics_daily"]
    assert (rates["days_counted"], rates["rows_restated"]) == (day, 0)


def test_a_backfill_counts_a_day_that_no_night_has_counted(sample_hub: CommandLine) -> None:
    done = sample_hub("backfill", "metrics", "--from", "2024-02-29", "--to", "2024-02-29")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Backfilled 2024-02-29 to 2024-02-29 (1 local day)")
    assert f"{5 * len(COUNTED)} rows new" in done.stdout or "0 days counted" in done.stdout


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        ("2026-02-02", "2026-02-01", "holds no day"),
        ("2023-12-31", "2024-01-02", "Metrics begin with 2024-01-01"),
        ("2026-01-01", "2199-01-01", "has not begun"),
    ],
)
def test_an_impossible_range_is_one_sentence(
    untouched: CommandLine, first: str, last: str, reason: str
) -> None:
    done = untouched("backfill", "metrics", "--from", first, "--to", last)
    assert (done.returncode, done.stdout) == (1, "")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
