"""Rules that several assets share: when they count as fresh, which faults are worth a retry, which step may write alone.

Belongs here: named policies with the reason for their numbers.
Does not belong here: schedules and jobs (pipelines).
"""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import dagster as dg

from threadhouse.retrieval.errors import StoreLockedError, ThreadhouseError
from threadhouse.stores.postgres import TRANSIENT_FAULTS

VECTOR_WRITER: Final = "vector_writer"
"""Pool of the steps that write vector collections; its limit of 1 is set in dagster.yaml, because one process owns a shard."""

OWNERS: Final = ["team:retrieval"]

AFTER_WHAT_IS_READY: Final = {"dagster/priority": "-1"}
"""Tags of a step that uses what others make and can do without: it runs later than all else that can, also when that failed."""

FRESH_DAILY: Final = dg.FreshnessPolicy.time_window(
    # One missed night is a warning, two are a failure: a reader then gets answers that are two days old.
    warn_window=timedelta(hours=26),
    fail_window=timedelta(hours=50),
)

TRANSIENT_RETRIES: Final = 3
TRANSIENT_WAIT_S: Final = 10
"""A store that fails over is back within half a minute; what lasts longer should be seen by a person."""


@contextmanager
def retrying_transient_faults() -> Generator[None, None, None]:
    """Turn a transient fault into a retry, and a named error into a failure that is not retried.

    Wrong input stays wrong: retrying it only delays the message by the time of three more runs.
    """
    try:
        yield
    except (*TRANSIENT_FAULTS, StoreLockedError) as error:
        raise dg.RetryRequested(
            max_retries=TRANSIENT_RETRIES, seconds_to_wait=TRANSIENT_WAIT_S
        ) from error
    except ThreadhouseError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
