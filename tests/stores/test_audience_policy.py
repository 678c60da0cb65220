"""A policy comes into force as a whole, once, with its log; and everything follows it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from delivery_house import CUSTOMER, SPACE, T1, read, rows, write_hub
from threadhouse.retrieval.audience import AudiencePolicy
from threadhouse.retrieval.errors import PolicyConflictError
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.policy_documents import PolicyDocument
from threadhouse.stores.audience_policy import apply_audience_policy, read_audience_policy
from threadhouse.stores.pack_delivery import PackDelivery
from threadhouse.stores.pack_store import PackStore
from threadhouse.stores.postgres import Database


def in_force(database: Database) -> AudiencePolicy:
    with database.connect() as connection:
        return read_audience_policy(connection)


def document_of(policy: AudiencePolicy, **customer: frozenset[str]) -> PolicyDocument:
    lane = replace(policy.lanes[Audience.CUSTOMER], **customer)
    return PolicyDocument({**policy.lanes, Audience.CUSTOMER: lane}, None)


def put(database: Database, document: PolicyDocument, made_from: int, by: str = "thu") -> int:
    with database.connect() as connection:
        version, _ = apply_audience_policy(
            connection, document, made_from, applied_by=by, reason="Đ37/12"
        )
    return version


WIDE = frozenset({"public", "partner"})


def test_a_new_version_is_in_force_as_a_whole(database: Database) -> None:
    document = document_of(in_force(database), visibility=WIDE)
    assert put(database, document, 1) == 2
    assert in_force(database) == document.as_version(2)


def test_a_widening_is_logged_and_put_before_governance(database: Database) -> None:
    put(database, document_of(in_force(database), visibility=WIDE, readiness=frozenset()), 1)
    assert rows(
        database,
        "select policy_version, previous_version, applied_by, reason, widens, narrows from cong.audience_policy_change",
    ) == [
        (
            2,
            1,
            "thu",
            "Đ37/12",
            [{"audience": "customer", "holder": "", "what": "visibility: partner"}],
            [{"audience": "customer", "holder": "", "what": "readiness: published"}],
        )
    ]
    items = rows(database, "select kind, title, status, evidence from nao.governance_queue_item")
    assert [row[:3] for row in items] == [
        ("governance", "Audience policy version 2 widens what customer may see", "open")
    ]
    assert items[0][3]["reason"] == "Đ37/12"


def test_a_narrowing_is_logged_and_troubles_nobody(database: Database) -> None:
    put(database, document_of(in_force(database), visibility=frozenset()), 1)
    assert rows(database, "select count(*) from cong.audience_policy_change") == [(1,)]
    assert rows(database, "select count(*) from nao.governance_queue_item") == [(0,)]


def test_a_change_of_a_version_that_was_replaced_is_refused(database: Database) -> None:
    first = in_force(database)
    put(database, document_of(first, visibility=WIDE), 1, by="minh")
    with pytest.raises(
        PolicyConflictError, match=r"Version 2 of the policy is in force since .* by minh"
    ):
        put(database, document_of(first, visibility=frozenset()), 1)
    assert in_force(database).version == 2


def test_of_two_changes_at_once_one_wins_and_the_other_is_told(database: Database) -> None:
    first = in_force(database)
    outcomes: list[object] = []
    barrier = threading.Barrier(4)

    def change(number: int) -> None:
        barrier.wait()
        try:
            outcomes.append(put(database, document_of(first, visibility=WIDE), 1, by=f"n{number}"))
        except PolicyConflictError as error:
            outcomes.append(type(error))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == sorted([2, *[PolicyConflictError] * 3], key=str)
    assert rows(
        database, "select count(distinct policy_version) from cong.audience_filter_policy"
    ) == [(2,)]


def test_a_change_that_breaks_off_leaves_nothing(database: Database) -> None:
    document = document_of(in_force(database), visibility=WIDE)
    with database.connect() as connection:
        apply_audience_policy(connection, document, 1, applied_by="x", reason="x")
        connection.rollback()
    assert in_force(database).version == 1
    assert rows(database, "select count(*) from cong.audience_policy_change") == [(0,)]


def test_no_pack_of_an_older_version_is_served(database: Database) -> None:
    write_hub(database)
    delivery = PackDelivery(database.connect)
    read(delivery)
    assert read(delivery)[1]
    put(database, document_of(in_force(database), risk_class=frozenset({"low"})), 1)
    assert PackStore(database).read_pack(T1, Audience.CUSTOMER, SPACE).stale == ("policy_version",)
    pack, is_stored, _ = read(delivery)
    assert pack is not None
    assert not is_stored
    assert pack.built_from.policy_version == 2


def test_a_policy_that_closes_everything_is_felt_by_the_next_read(database: Database) -> None:
    write_hub(database)
    delivery = PackDelivery(database.connect)
    assert read(delivery, CUSTOMER)[0] is not None
    put(database, document_of(in_force(database), visibility=frozenset()), 1)
    assert read(delivery, CUSTOMER)[0] is None
