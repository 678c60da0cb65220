"""One thread in Postgres and the delivery of its packs, for tests of what leaves and what it leaves behind.

Belongs here: rows of a small hub and changing them. Does not belong here: vectors, questions (see content_house), expectations.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID, uuid4

from psycopg.rows import TupleRow

from threadhouse.retrieval.audience import AudiencePolicy, lane_principal
from threadhouse.retrieval.events import EventType, ResolutionPath, RetrievalEvent, event_id_from
from threadhouse.retrieval.models import Audience, Principal, ThreadId
from threadhouse.retrieval.packs import ContextPack
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.pack_delivery import PackDelivery
from threadhouse.stores.pack_store import BuiltPack
from threadhouse.stores.postgres import Database

T1 = ThreadId("t1")
SPACE = "space"
CUSTOMER = lane_principal(Audience.CUSTOMER)


def write_hub(database: Database, units: int = 1) -> None:
    """Thread t1 with units u1 to un, which every lane sees, and unit x of another document that no thread has."""
    with database.connect() as connection:
        for document in ("d1", "d2"):
            connection.execute(
                """insert into public.production_document
                   (document_id, path, title, body, language, visibility, readiness, publication_state, risk_class, authority)
                   values (%s, %s, 'document', 'x', 'vi', 'public', 'published', 'published', 'low', 'enacted')""",
                (document, f"{document}.md"),
            )
        for name in (*(f"u{number}" for number in range(1, units + 1)), "x"):
            connection.execute(
                """insert into public.tac_logical_unit
                   (logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage)
                   values (%s, %s, %s, 'law_unit', 'law')""",
                (name, "d2" if name == "x" else "d1", f"A/{name}"),
            )
            version = uuid4()
            connection.execute(
                """insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
                   values (%s, %s, 1, 'Điều 1', 'Nội dung')""",
                (version, name),
            )
            connection.execute(
                "update public.tac_logical_unit set current_version_id = %s where logical_unit_id = %s",
                (version, name),
            )
        connection.execute(
            "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t1', 'T/1', 'Thread')"
        )
        connection.execute(
            """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
               select 't1', logical_unit_id, 'canonical', 1, 'confirmed'
               from public.tac_logical_unit where logical_unit_id <> 'x'"""
        )


def change(database: Database, statement: LiteralString, *parameters: object) -> None:
    with database.connect() as connection:
        connection.execute(statement, parameters)


def rows(database: Database, statement: LiteralString, *parameters: object) -> list[TupleRow]:
    with database.connect() as connection:
        return connection.execute(statement, parameters).fetchall()


def policy_of(database: Database) -> AudiencePolicy:
    with open_knowledge(database) as knowledge:
        return knowledge.policy()


def query_event(query_id: UUID | None = None) -> RetrievalEvent:
    now = datetime.now(UTC)
    query_id = query_id or event_id_from(now, os.urandom(10))
    return RetrievalEvent(
        event_id=query_id,
        occurred_at=now,
        type=EventType.QUERY,
        query_id=query_id,
        lane=Audience.CUSTOMER,
        thread_id=T1,
        resolution_path=ResolutionPath.THREAD,
    )


def read(
    delivery: PackDelivery,
    principal: Principal = CUSTOMER,
    space_id: str = SPACE,
) -> tuple[ContextPack | None, bool, tuple[str, ...]]:
    """One read as the service makes it: the stored pack, else a build that is written back. Pack, whether stored, why stale."""
    with delivery.one_moment() as knowledge:
        policy = knowledge.policy()
    with delivery.begin() as out:
        pack, stale = out.stored_pack(T1, principal, policy, space_id)
        if pack is not None:
            return pack, True, ()
    while True:
        built = delivery.build(T1, principal, space_id)
        if built.pack is None:
            return None, False, stale
        with delivery.begin() as out:
            if not out.confirm(built.pack, principal, built.policy):
                continue
        delivery.keep(BuiltPack(built.pack, built.build_ms))
        return built.pack, False, stale
