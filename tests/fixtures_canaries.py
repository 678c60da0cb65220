"""A planted house of leak canaries, once a file of tests: planting takes longer than probing.

Belongs here: the house, given back to each test as it was planted. Does not belong here: what a test breaks in it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from fixtures_postgres import new_database
from threadhouse.retrieval.models import Audience
from threadhouse.stores.leak_probe import CanaryGround, planted_canaries
from threadhouse.stores.postgres import Database
from threadhouse.stores.settings import Settings


@pytest.fixture(scope="module")
def planted(
    postgres_server: Database, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[CanaryGround, None, None]:
    """The house of a file. No longer: while its transaction is open, days with new events are looked at again and again."""
    home = tmp_path_factory.mktemp("canaries")
    with (
        new_database(postgres_server, template_database) as database,
        planted_canaries(database, Settings(threadhouse_home=home)) as ground,
    ):
        yield ground


@pytest.fixture
def ground(planted: CanaryGround) -> Generator[CanaryGround, None, None]:
    """The house as it was planted, whatever the test before did in it."""
    with planted.database.lend() as connection, connection.transaction(force_rollback=True):
        yield planted


def asked_as(ground: CanaryGround, *readers: str) -> CanaryGround:
    """The same house, probed for some readers only; all of them come through the same code."""
    chosen = readers or (Audience.CUSTOMER,)
    return replace(ground, readers={name: ground.readers[name] for name in chosen})
