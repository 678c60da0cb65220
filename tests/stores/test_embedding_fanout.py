"""Buckets embed together what a publish needs, and nothing twice.

Method: a real Postgres with the cache in it and the small embedder, which counts; buckets run at the same time in threads with
connections of their own, as they do in processes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_house import ContentHouse
from hub_rows import add_document, add_unit, write_version
from threadhouse.stores.embedding_fanout import bucket_of, embed_bucket
from threadhouse.stores.postgres import Database

BUCKETS = 4


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """Twenty units in one document, and a document without units."""
    house = ContentHouse(database, tmp_path)
    with house.connect() as connection:
        add_document(connection, "law")
        add_document(connection, "legacy", "Một quy định cũ. " * 400)
        for number in range(20):
            add_unit(connection, f"L.{number}", "law", f"Điều {number} quy định việc số {number}.")
    return house


def embed_all(house: ContentHouse) -> list[tuple[int, int]]:
    """Owners and texts embedded by each bucket, all at once."""
    with ThreadPoolExecutor(BUCKETS) as pool:
        done = pool.map(
            lambda bucket: embed_bucket(house.database, house.embedder(), bucket, BUCKETS),
            range(BUCKETS),
        )
        return [(each.owners, each.texts_embedded) for each in done]


@given(st.text(min_size=1), st.integers(1, 64))
def test_an_owner_is_in_one_bucket_whoever_asks(owner_id: str, buckets: int) -> None:
    assert bucket_of(owner_id, buckets) in range(buckets)
    assert bucket_of(owner_id, buckets) == bucket_of(owner_id, buckets)


def test_after_the_buckets_a_publish_embeds_nothing(house: ContentHouse) -> None:
    done = embed_all(house)
    assert sum(owners for owners, _ in done) == 21
    assert len([owners for owners, _ in done if owners]) > 1
    report = house.publish()
    assert (report.texts_embedded, report.owners_published) == (0, 21)
    assert report.cache_hits == sum(texts for _, texts in done)


def test_what_is_published_is_not_embedded_again(house: ContentHouse) -> None:
    house.publish()
    assert embed_all(house) == [(0, 0)] * BUCKETS
    with house.connect() as connection:
        write_version(connection, "L.3", "Điều 3 nay quy định việc khác.")
    done = embed_all(house)
    assert (sum(owners for owners, _ in done), sum(texts for _, texts in done)) == (1, 1)
    assert house.publish().texts_embedded == 0


def test_a_bucket_that_is_done_again_finds_everything_in_the_cache(house: ContentHouse) -> None:
    embed_all(house)
    again = embed_all(house)
    assert sum(owners for owners, _ in again) == 21
    assert sum(texts for _, texts in again) == 0
