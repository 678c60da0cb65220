"""A small hub with everything that a backup holds, and homes to put it back into.

Belongs here: making the hub, looking at what two hubs hold. Does not belong here: expectations.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString
from uuid import UUID

from psycopg import sql

from fixtures_postgres import as_url
from hub_rows import add_document, add_unit
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.events import RetrievalEvent
from threadhouse.retrieval.models import Audience
from threadhouse.serving.opening import open_retrieval_service
from threadhouse.stores.analytics import refresh_analytics
from threadhouse.stores.audit import AuditReport, audit_projection
from threadhouse.stores.centroid_projection import refresh_centroids
from threadhouse.stores.embedders import FastembedEmbedder
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.lake import EventLake
from threadhouse.stores.lake_extract import extract_days
from threadhouse.stores.metrics_store import append_events, count_days, days_due
from threadhouse.stores.model_build import models_directory
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection import publish_content
from threadhouse.stores.query_secret import open_question_keeper
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import create_key
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import open_reader, open_writer

QUESTIONS = ("Nhân viên được nghỉ phép bao nhiêu ngày?", "hoàn tiền", "leave")


@dataclass(frozen=True)
class BackupHouse:
    """One hub: its settings, its database, the model."""

    settings: Settings
    database: Database
    model: FastembedEmbedder

    @property
    def home(self) -> Path:
        return self.settings.home

    def embedder(self) -> CachedEmbedder:
        return CachedEmbedder(self.model, PostgresVectorCache(self.database))

    def write(self) -> None:
        """Two units of one thread, a document of the old kind, events of three days, keys."""
        with self.database.connect() as connection:
            add_document(connection, "leave")
            add_unit(connection, "L.1", "leave", "Nhân viên được nghỉ phép mười hai ngày mỗi năm.")
            add_unit(connection, "L.2", "leave", "Khách hàng được hoàn tiền trong bảy ngày.")
            add_document(connection, "old", body="Quy định cũ về nghỉ phép. " * 20)
            connection.execute(
                """insert into public.semantic_thread
                   (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
                   values ('t1', 'T/1', 'Nghỉ phép', 'public', 'published', 'published', 'low', 'enacted')"""
            )
            connection.execute(
                """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
                   select 't1', logical_unit_id, 'canonical', 1, 'confirmed' from public.tac_logical_unit"""
            )
        morning = datetime(2026, 11, 16, 3, tzinfo=UTC)
        append_events(
            self.database,
            [
                RetrievalEvent.model_validate(
                    {
                        "type": "query",
                        "event_id": UUID(int=number + 1),
                        "query_id": UUID(int=number + 1),
                        "lane": "employee",
                        "thread_id": "t1",
                        "resolution_path": "thread",
                        "occurred_at": morning + timedelta(days=number % 3, minutes=number),
                    }
                )
                for number in range(12)
            ],
        )
        create_key(self.settings)
        open_question_keeper(self.settings)
        self.night()

    def night(self) -> tuple[int, int]:
        """What a nightly does to the stores; returns vector writes and texts embedded."""
        settings, lake = self.settings, EventLake.open(self.settings)
        with closing(open_writer(home=self.home, lock_timeout_s=10)) as store:
            done = publish_content(self.database, store, self.embedder(), self.home)
            centroids = refresh_centroids(self.database, store, self.model.space)
        refresh_packs(self.database, self.model.space.space_id)
        extract_days(self.database, lake, settings.zone)
        count_days(self.database, lake, settings.zone, days_due(self.database, lake))
        refresh_analytics(self.database, lake)
        return done.vector_writes + centroids.written, done.texts_embedded

    def audit(self) -> AuditReport:
        with closing(open_reader(home=self.home)) as store:
            return audit_projection(self.database, store, self.embedder())

    def answers(self) -> list[object]:
        """What everybody is told."""
        told: list[object] = []
        with open_retrieval_service(self.settings, embedder=self.model) as service:
            for question in QUESTIONS:
                for audience in Audience:
                    pack = service.retrieve(question, lane_principal(audience))
                    told.append(pack.model_dump(mode="json"))
        return told

    def rows(self, statement: LiteralString) -> list[tuple[object, ...]]:
        with self.database.connect() as connection:
            return connection.execute(statement).fetchall()

    def table_sizes(self) -> dict[str, int]:
        """How many rows each table has."""
        names = self.rows(
            """select n.nspname || '.' || c.relname, n.nspname, c.relname
               from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where c.relkind = 'r' and n.nspname in ('public', 'nao', 'cong') order by 1"""
        )
        with self.database.connect() as connection:
            counted: dict[str, int] = {}
            for name, schema, table in names:
                count = sql.SQL("select count(*) from {}").format(
                    sql.Identifier(str(schema), str(table))
                )
                row = connection.execute(count).fetchone()
                counted[str(name)] = row[0] if row else 0
            return counted


def settings_of(home: Path, model_home: Path, database: Database | None = None) -> Settings:
    """Settings of a home that uses the model which was built once; an embedded server without ``database``."""
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    if not models_directory(home).exists():
        models_directory(home).symlink_to(models_directory(model_home))
    return Settings.model_validate(
        {
            "threadhouse_home": home,
            "embedding_threads": 2,
            "lock_timeout_s": 10,
            **({"database_url": as_url(database)} if database else {}),
        }
    )
