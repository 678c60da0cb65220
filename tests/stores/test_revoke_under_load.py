"""A right that is taken away while several processes read: from the commit on, no read returns what it hid.

Method: the benchmark of the same name on a small hub, with a real Postgres, the embedded engine, processes of their own;
`python -m bench revoke` is the long one.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from bench.labelled_hub import fill_open_hub, publish_hub
from bench.revoke import LANES, WAYS, Plan, judge_reads, watch_revokes
from bench.synthetic_hub import SyntheticEmbedder
from fixtures_postgres import as_url
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


def test_no_read_that_begins_after_the_commit_returns_what_was_taken_away(
    database: Database, tmp_path: Path
) -> None:
    """Hundreds of reads by three lanes, and every way of taking a right away."""
    settings = Settings.from_environment().model_copy(
        update={
            "threadhouse_home": tmp_path,
            "database_url": SecretStr(as_url(database)),
            "qdrant_url": None,
        }
    )
    embedder = SyntheticEmbedder()
    fill_open_hub(database, 60, 6)
    publish_hub(database, settings, embedder)
    plan = Plan(settings, embedder.space, targets=1, reads=6, readers=len(LANES), lags=1)
    watched = watch_revokes(plan, embedder)
    judged = judge_reads(watched.reads, watched.revokes)
    assert [read for found in judged.values() for read in found.violations] == []
    assert judged.keys() == {way.name for way in WAYS}
    # Every reader reads six times in each phase, by each of the six paths.
    enough = plan.readers * plan.reads
    assert all(found.after >= enough and found.held_before for found in judged.values())
    assert len(watched.reads) > 2 * enough * len(WAYS)
    assert watched.lags
