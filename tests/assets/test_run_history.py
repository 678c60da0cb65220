"""Old runs of the UI leave with their logs; what still tells something stays."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from threadhouse.resources.run_history import prune_runs


@dg.op
def step() -> None:
    """Says something."""
    print("said")  # noqa: T201  what the compute log keeps


@dg.job
def seldom() -> None:
    """One step."""
    step()


@dg.job
def often() -> None:
    """One step."""
    step()


def test_ended_runs_leave_with_their_logs_and_the_last_of_a_job_stays(tmp_path: Path) -> None:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        old = [job.execute_in_process(instance=instance).run_id for job in (seldom, often, often)]
        going_on = instance.create_run_for_job(often, status=dg.DagsterRunStatus.STARTED).run_id
        later = datetime.now(UTC) + timedelta(hours=1)
        last = often.execute_in_process(instance=instance).run_id

        assert prune_runs(instance, datetime.now(UTC) - timedelta(hours=1)) == 0
        assert prune_runs(instance, later, dry_run=True) == 2
        assert len(instance.get_runs()) == 5
        assert prune_runs(instance, later) == 2
        assert {run.run_id for run in instance.get_runs()} == {old[0], going_on, last}
        assert not [path for path in tmp_path.rglob("*") if path.name.startswith(tuple(old[1:]))]
        assert prune_runs(instance, later) == 0
