"""What each database role may see and do, asked of the database itself without a WHERE."""

from __future__ import annotations

import random
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import LiteralString

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from fixtures_postgres import new_database
from label_house import (
    FLAGS,
    LabelledUnit,
    drop_label_checks,
    random_labels,
    random_policy,
    random_principal,
    random_units,
    write_policy,
    write_units,
)
from threadhouse.retrieval.audience import (
    HIGH_RISK_CONSENT,
    AudiencePolicy,
    allowed_values,
    lane_principal,
    visible,
)
from threadhouse.retrieval.lanes import flags_leave_open
from threadhouse.retrieval.models import Audience, Principal
from threadhouse.retrieval.payloads import labels_from_metadata
from threadhouse.stores import embedded_postgres, migrations
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import (
    BUILDER_ROLE,
    LANE_ROLES,
    READER_ROLE,
    begin_reading,
    continue_as,
    row_security_gaps,
)

COUNTED = ("confirmed", "proposed", "needs_human")
LANE_ROLE_NAMES = [*LANE_ROLES.values()]


# --- What a query without a WHERE returns ------------------------------------------------------------------------------


@dataclass
class Hub:
    """Everything that stands in the tables, beside what the rules say of it."""

    units: dict[str, LabelledUnit]
    bare_documents: dict[str, dict[str, str | None]]
    threads: dict[str, dict[str, str | None]]
    memberships: list[tuple[str, str, str]] = field(default_factory=list)
    gaps: list[tuple[str, str | None]] = field(default_factory=list)
    edges: list[tuple[str, str, str, str]] = field(default_factory=list)
    packs: list[tuple[str, str, int, int]] = field(default_factory=list)


class Expected:
    """What one principal may see of a hub, by the predicate alone."""

    def __init__(self, hub: Hub, who: Principal, policy: AudiencePolicy) -> None:
        self.hub, self.who, self.policy = hub, who, policy
        self.units = {name for name, u in hub.units.items() if visible(u.labels, who, policy)}
        self.open_threads = {name for name, own in hub.threads.items() if self._is_open(own)}
        self.memberships = {
            (thread, unit)
            for thread, unit, status in hub.memberships
            if status in COUNTED and unit in self.units and thread in self.open_threads
        }
        self.threads = {thread for thread, _ in self.memberships}
        self.whole_documents = {
            name
            for name, own in hub.bare_documents.items()
            if visible(labels_from_metadata(own), who, policy)
        }
        self.documents = self.whole_documents | {hub.units[u].document_id for u in self.units}

    def _is_open(self, own: dict[str, str | None]) -> bool:
        parsed = labels_from_metadata(own).flags
        if any(own[name] is not None and getattr(parsed, name) is None for name in FLAGS):
            return False
        return flags_leave_open(parsed, self.who, self.policy)

    def gaps(self) -> set[tuple[str, str | None]]:
        stages = allowed_values(self.who, self.policy)["lifecycle_stage"]
        return {gap for gap in self.hub.gaps if gap[0] in self.threads and gap[1] in stages}

    def edges(self) -> set[tuple[str, str, str, str]]:
        ends = {"unit": self.units, "thread": self.threads, "document": self.documents}
        return {e for e in self.hub.edges if e[1] in ends[e[0]] and e[3] in ends[e[2]]}

    def packs(self, revisions: dict[str, int]) -> set[str]:
        return {
            thread
            for thread, lane, revision, version in self.hub.packs
            if lane == self.who.audience
            and thread in self.threads
            and revision == revisions[thread]
            and version == self.policy.version
        }


def make_hub(rng: random.Random) -> Hub:
    units = {unit.unit_id: unit for unit in random_units(rng, 240)}
    hub = Hub(
        units=units,
        bare_documents={f"bare{n}": random_labels(rng, 0.03) for n in range(60)},
        threads={f"t{n}": random_labels(rng, 0.8) for n in range(80)},
    )
    names = [*units]
    for thread in hub.threads:
        for unit in rng.sample(names, rng.randint(0, 4)):
            status = rng.choice([*COUNTED, "confirmed", "rejected", "Confirmed"])
            hub.memberships.append((thread, unit, status))
        stage = rng.choice(["law", "code", "incident", "CODE"])
        hub.gaps.append((thread, stage))
    ends = {"unit": names, "thread": [*hub.threads], "document": [*hub.bare_documents, "d1", "d2"]}
    for _ in range(300):
        source, target = rng.choice([*ends]), rng.choice([*ends])
        edge = (source, rng.choice([*ends[source], "gone"]), target, rng.choice(ends[target]))
        if edge not in hub.edges:
            hub.edges.append(edge)
    return hub


def write_hub(connection: Connection[TupleRow], hub: Hub) -> None:
    write_units(connection, [*hub.units.values()])
    connection.execute(
        """insert into public.production_document
           (document_id, path, title, body, language, lifecycle_stage, data_classification, visibility, readiness
           , publication_state, risk_class, authority)
           select id, id || '.md', 'Văn bản', 'x', 'vi', lifecycle_stage, data_classification, visibility, readiness
                , publication_state, risk_class, authority
           from jsonb_to_recordset(%s) as r (id text, lifecycle_stage text, data_classification text, visibility text
           , readiness text, publication_state text, risk_class text, authority text)""",
        (Jsonb([{"id": name, **labels} for name, labels in hub.bare_documents.items()]),),
    )
    connection.execute(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           select id, id, 'Chủ đề', visibility, readiness, publication_state, risk_class, authority
           from jsonb_to_recordset(%s) as r (id text, visibility text, readiness text, publication_state text
           , risk_class text, authority text)""",
        (Jsonb([{"id": name, **labels} for name, labels in hub.threads.items()]),),
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            """insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
               values (%s, %s, 'canonical', 1, %s)""",
            hub.memberships,
        )
        cursor.executemany(
            """insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)
               values (%s, %s, 'thiếu')""",
            hub.gaps,
        )
        cursor.executemany(
            """insert into public.universal_edge
               (edge_id, source_kind, source_id, target_kind, target_id, edge_type)
               values (gen_random_uuid(), %s, %s, %s, %s, 'relates')""",
            hub.edges,
        )


def write_packs(
    connection: Connection[TupleRow], hub: Hub, rng: random.Random, version: int
) -> dict[str, int]:
    revisions = dict(
        connection.execute(
            "select thread_id, input_revision from public.semantic_thread"
        ).fetchall()
    )
    hub.packs.clear()
    connection.execute("delete from nao.thread_context_pack_cache")
    for thread, revision in revisions.items():
        for lane in Audience:
            built = (revision - rng.choice([0, 0, 1]), version - rng.choice([0, 0, 1]))
            hub.packs.append((thread, lane.value, *built))
            connection.execute(
                """insert into nao.thread_context_pack_cache
                   (thread_id, lane, pack_id, input_revision, policy_version, space_id, code_version, input_digest, pack
                   , build_ms)
                   values (%s, %s, gen_random_uuid(), %s, %s, 's', '1', 'd', '{}', 1)""",
                (thread, lane, *built),
            )
    return revisions


def everything(connection: Connection[TupleRow], statement: LiteralString) -> set[object]:
    rows = connection.execute(statement).fetchall()
    found: set[object] = {row[0] if len(row) == 1 else tuple(row) for row in rows}
    assert len(found) == len(rows)
    return found


def seen_by_the_role(connection: Connection[TupleRow], who: Principal) -> dict[str, set[object]]:
    with connection.transaction(force_rollback=True):
        begin_reading(connection, who)
        return {
            "units": everything(connection, "select logical_unit_id from visible.information_unit"),
            "threads": everything(connection, "select thread_id from visible.semantic_thread"),
            "memberships": everything(
                connection, "select thread_id, logical_unit_id from visible.thread_membership"
            ),
            "documents": everything(
                connection, "select document_id from visible.production_document"
            ),
            "bodies": everything(
                connection,
                "select document_id from visible.production_document where body is not null",
            ),
            "gaps": everything(
                connection,
                "select thread_id, lifecycle_stage from visible.expected_artifact_missing",
            ),
            "edges": everything(
                connection,
                "select source_kind, source_id, target_kind, target_id from visible.universal_edge",
            ),
            "packs": everything(connection, "select thread_id from visible.thread_context_pack"),
        }


def seen_in_the_tables(connection: Connection[TupleRow], who: Principal) -> dict[str, set[object]]:
    with connection.transaction(force_rollback=True):
        begin_reading(connection, who)
        return {
            "units": everything(connection, "select logical_unit_id from public.tac_logical_unit"),
            "versions": everything(
                connection, "select logical_unit_id from public.tac_unit_version"
            ),
            "threads": everything(connection, "select thread_id from public.semantic_thread"),
            "memberships": everything(
                connection, "select thread_id, logical_unit_id from public.thread_membership"
            ),
            "bodies": everything(connection, "select document_id from public.production_document"),
            "gaps": everything(
                connection,
                "select thread_id, lifecycle_stage from public.expected_artifact_missing",
            ),
            "edges": everything(
                connection,
                "select source_kind, source_id, target_kind, target_id from public.universal_edge",
            ),
            "packs": everything(connection, "select thread_id from nao.thread_context_pack_cache"),
        }


def test_a_query_without_a_where_returns_what_the_predicate_says(database: Database) -> None:
    rng = random.Random(10)
    hub = make_hub(rng)
    kinds_seen: dict[str, int] = {}
    with database.connect() as connection:
        drop_label_checks(connection)
        write_hub(connection, hub)
        # More than lanes have, so that the fence around the tables is tried as well.
        for role in LANE_ROLE_NAMES:
            connection.execute(f"grant usage on schema nao to {role}".encode())
            connection.execute(f"grant select on all tables in schema public to {role}".encode())
            connection.execute(f"grant select on nao.thread_context_pack_cache to {role}".encode())
        for version in range(2, 6):
            policy = random_policy(rng, version)
            write_policy(connection, policy)
            revisions = write_packs(connection, hub, rng, version)
            connection.commit()
            policy = KnowledgeReader(connection).policy()
            for audience in Audience:
                for who in (lane_principal(audience), random_principal(rng, audience)):
                    expected = Expected(hub, who, policy)
                    found = {
                        "units": expected.units,
                        "threads": expected.threads,
                        "memberships": expected.memberships,
                        "documents": expected.documents,
                        "bodies": expected.whole_documents,
                        "gaps": expected.gaps(),
                        "edges": expected.edges(),
                        "packs": expected.packs(revisions),
                    }
                    assert seen_by_the_role(connection, who) == found, (version, who)
                    del found["documents"]
                    assert seen_in_the_tables(connection, who) == {
                        **found,
                        "versions": expected.units,
                    }
                    for kind, keys in found.items():
                        kinds_seen[kind] = kinds_seen.get(kind, 0) + len(keys)
    assert min(kinds_seen.values()) > 0, kinds_seen


def test_no_claim_opens_more_than_the_policy_of_the_lane_holds(database: Database) -> None:
    rng = random.Random(11)
    greedy = Principal(
        subject="greedy",
        audience=Audience.CUSTOMER,
        roles=frozenset({"author", "archivist", "security_reviewer", "incident_responder"}),
        tool_permissions=frozenset(
            {"read:drafts", "read:restricted", "read:confidential", "read:withdrawn"}
        ),
        classifications=frozenset({"confidential", "secret"}),
    )
    with database.connect() as connection:
        write_units(
            connection,
            [
                replace(u, own=known(u.own), of_document=known(u.of_document))
                for u in random_units(rng, 4000)
            ],
        )
        connection.commit()
        plain = seen_by_the_role(connection, lane_principal(Audience.CUSTOMER))["units"]
        assert plain
        assert seen_by_the_role(connection, greedy)["units"] == plain
        consenting = replace(greedy, high_risk_consents=frozenset({HIGH_RISK_CONSENT}))
        assert seen_by_the_role(connection, consenting)["units"] > plain


def known(labels: object) -> dict[str, str | None]:
    """The same labels without the words that the tables refuse; those that must not be missing, stated."""
    assert isinstance(labels, dict)
    parsed = labels_from_metadata(labels)
    return {
        **{name: getattr(parsed.flags, name) for name in FLAGS},
        "lifecycle_stage": parsed.lifecycle_stage or "law",
        "data_classification": parsed.data_classification or "unclassified",
    }


def test_malformed_claims_show_nothing(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(
            """select set_config('threadhouse.claims', 'everything', true)
                    , set_config('role', 'threadhouse_customer', true)"""
        )
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute("select cong.allowed_now()")


# --- What roles may do -------------------------------------------------------------------------------------------------


def refused(connection: Connection[TupleRow], role: str, statement: LiteralString) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            continue_as(connection, role)
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return True
    except psycopg.errors.ObjectNotInPrerequisiteState:
        return True  # a view that cannot be written at all
    return False


def privileges(connection: Connection[TupleRow], role: str) -> set[tuple[str, str]]:
    """Every right on a table, view or column that the role has by itself or as everybody."""
    return {
        (f"{schema}.{table}", right)
        for schema, table, right in connection.execute(
            """select table_schema, table_name, privilege_type from information_schema.role_table_grants
               where grantee in (%(role)s, 'PUBLIC') and table_schema in ('public', 'source', 'visible', 'nao', 'cong')
               union
               select table_schema, table_name, 'column ' || privilege_type from information_schema.role_column_grants
               where grantee in (%(role)s, 'PUBLIC') and table_schema in ('public', 'source', 'visible', 'nao', 'cong')""",
            {"role": role},
        )
        if not (right.startswith("column") and schema == "visible")
    }


@pytest.mark.parametrize("role", LANE_ROLE_NAMES)
def test_a_lane_may_read_the_views_of_visible_and_nothing_else(
    database: Database, role: str
) -> None:
    with database.connect() as connection:
        views = {
            f"visible.{row[0]}"
            for row in connection.execute(
                "select viewname from pg_views where schemaname = 'visible'"
            )
        }
        assert privileges(connection, role) == {(view, "SELECT") for view in views}
        for statement in (
            "select * from public.tac_logical_unit",
            "select * from source.information_unit",
            "select * from nao.thread_context_pack_cache",
            "select * from nao.retrieval_metric_event",
            "select * from nao.thread_lexicon",
            "select * from cong.audience_filter_policy",
            "select * from cong.audience_policy_change",
            "insert into nao.consumer_contract_log (entry_id, kind, subject) values (gen_random_uuid(), 'x', 'x')",
            "delete from public.tac_logical_unit",
            "update visible.information_unit set visibility = 'public'",
            "delete from visible.semantic_thread",
            "create table public.mine (a int)",
            "select cong.set_up_roles()",
        ):
            assert refused(connection, role, statement), statement


def test_the_reader_writes_down_what_left_and_reads_no_knowledge(database: Database) -> None:
    with database.connect() as connection:
        for statement in (
            "select * from public.tac_logical_unit",
            "select * from visible.information_unit",
            "select * from source.information_unit",
            "select title from source.semantic_thread",
            "select * from nao.thread_lexicon",
            "update cong.audience_filter_policy set visibility = '{restricted}'",
            "insert into cong.audience_filter_policy select * from cong.audience_filter_policy",
            "delete from nao.retrieval_metric_event",
            "update nao.consumer_contract_log set subject = 'somebody else'",
            "delete from nao.governance_queue_item",
        ):
            assert refused(connection, READER_ROLE, statement), statement
        for statement in (
            "select thread_id, input_revision from source.semantic_thread",
            "select * from cong.audience_filter_policy",
            "insert into nao.consumer_contract_log (entry_id, kind, subject) values (gen_random_uuid(), 'x', 'x')",
            "insert into nao.retrieval_metric_event (event_id, occurred_at, type) values (gen_random_uuid(), now(), 'query')",
            "delete from nao.thread_context_pack_cache where thread_id = 'x'",
        ):
            assert not refused(connection, READER_ROLE, statement), statement


def test_the_builder_reads_knowledge_and_writes_nothing(database: Database) -> None:
    with database.connect() as connection:
        rights = privileges(connection, BUILDER_ROLE)
        assert {right for _, right in rights} == {"SELECT", "column SELECT"}
        assert ("source.information_unit", "SELECT") in rights
        assert refused(connection, BUILDER_ROLE, "select * from nao.retrieval_metric_event")


@pytest.mark.parametrize("role", LANE_ROLE_NAMES)
def test_a_lane_cannot_become_another_one(administrator: Database, role: str) -> None:
    others = [other for other in (*LANE_ROLE_NAMES, READER_ROLE, BUILDER_ROLE) if other != role]
    with administrator.connect() as connection:
        members = connection.execute(
            "select rolname from pg_roles where rolname = any (%s) and pg_has_role(%s, oid, 'member')",
            (others, role),
        ).fetchall()
        assert members == []
        # As a login of its own: a session that only ever was the lane.
        connection.execute(f"set session authorization {role}".encode())
        for other in others:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute("select set_config('role', %s, true)", (other,))
            with connection.transaction():
                continue_as(connection, other)
                row = connection.execute("select current_user").fetchone()
                assert row == (role,)


def test_the_reader_has_nothing_of_a_lane_before_it_becomes_one(administrator: Database) -> None:
    with administrator.connect() as connection:
        connection.execute(f"set session authorization {READER_ROLE}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute("select * from visible.information_unit")
        with connection.transaction():
            begin_reading(connection, lane_principal(Audience.PARTNER))
            assert connection.execute("select current_user").fetchone() == ("threadhouse_partner",)
            connection.execute("select * from visible.information_unit")


def test_a_role_that_is_no_lane_sees_nothing_through_the_views(database: Database) -> None:
    with database.connect() as connection:
        write_units(
            connection,
            [
                replace(u, own=known(u.own), of_document=known(u.of_document))
                for u in random_units(random.Random(12), 50)
            ],
        )
        connection.execute("create role threadhouse_test_stranger")
        connection.execute("grant threadhouse_test_stranger to current_user")
        connection.execute("grant threadhouse_ai_agent to threadhouse_test_stranger")
        connection.execute("grant usage on schema visible to threadhouse_test_stranger")
        connection.execute("grant select on visible.information_unit to threadhouse_test_stranger")
        connection.execute("set local role threadhouse_test_stranger")
        assert connection.execute("select count(*) from visible.information_unit").fetchone() == (
            0,
        )
        connection.rollback()


def test_functions_with_their_owners_rights_pin_the_search_path(database: Database) -> None:
    with database.connect() as connection:
        loose = connection.execute(
            """select oid::regprocedure::text from pg_proc
               where pronamespace in ('cong'::regnamespace, 'visible'::regnamespace, 'nao'::regnamespace) and prosecdef
                 and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)"""
        ).fetchall()
        definers = connection.execute(
            "select count(*) from pg_proc where pronamespace = 'cong'::regnamespace and prosecdef"
        ).fetchone()
    assert loose == []
    assert definers is not None
    assert definers[0] > 3


def test_every_view_of_visible_is_a_barrier(database: Database) -> None:
    with database.connect() as connection:
        open_ones = connection.execute(
            """select oid::regclass::text from pg_class
               where relnamespace = 'visible'::regnamespace and not coalesce('security_barrier=true' = any (reloptions), false)"""
        ).fetchall()
    assert open_ones == []


def test_the_condition_is_part_of_the_statement_that_asks(database: Database) -> None:
    """A call for each row would cost more than the rest of a lookup."""
    with database.connect() as connection:
        plan = connection.execute(
            "explain (verbose) select logical_unit_id from visible.information_unit"
        ).fetchall()
    text = "\n".join(row[0] for row in plan)
    assert "cong.sees" not in text
    assert "'restricted'" in text


def test_the_role_ends_with_the_transaction(database: Database) -> None:
    with database.connect() as connection:
        before = connection.execute("select current_user").fetchone()
        with connection.transaction():
            begin_reading(
                connection,
                Principal("a", Audience.AI_AGENT, tool_permissions=frozenset({"read:drafts"})),
            )
        connection.commit()
        after = connection.execute(
            "select current_user, current_setting('threadhouse.claims', true)"
        ).fetchone()
    assert before is not None
    assert after == (*before, "")


# --- Setting up ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A server on which nobody ever made a role: roles are the server's, and its tests must meet none."""
    home = tmp_path_factory.mktemp("bare_server")
    running = embedded_postgres.start(home, settings={"fsync": "off", "full_page_writes": "off"})
    try:
        yield Database(running.conninfo(), is_embedded=True, lock_timeout_s=20.0)
    finally:
        embedded_postgres.stop(home)


def test_a_login_that_may_not_create_roles_is_told_what_is_missing(bare_server: Database) -> None:
    with bare_server.connect(autocommit=True) as connection:
        connection.execute("create role plain_owner nologin nosuperuser nocreaterole")
    with new_database(bare_server) as database:
        with database.connect(autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"alter database {name} owner to plain_owner".encode())
            connection.execute("alter schema public owner to plain_owner")
        plain = Database(f"{database.conninfo} options='-c role=plain_owner'", is_embedded=True)
        assert migrations.migrate(plain).applied
        with plain.connect() as connection:
            gaps = row_security_gaps(connection)
            assert [gap.gap for gap in gaps][:6] == [
                f"role {role} does not exist"
                for role in (*LANE_ROLE_NAMES, READER_ROLE, BUILDER_ROLE)
            ]
            # Questions go on with the rights of the login.
            begin_reading(connection, lane_principal(Audience.CUSTOMER))
            connection.execute("select * from visible.information_unit")
        # Somebody who may creates them, and says so once more.
        with database.connect() as connection:
            connection.execute("select cong.set_up_roles()")
            assert row_security_gaps(connection) == []


class DatabaseOfMaker(Database):
    """A database whose login is another role: the embedded server lets only its own one log in."""

    @contextmanager
    def connect(self, *, autocommit: bool = False) -> Generator[Connection[TupleRow], None, None]:
        with super().connect(autocommit=autocommit) as connection:
            connection.execute("set session authorization maker")
            if not autocommit:
                connection.commit()
            yield connection


def test_an_owner_that_may_create_roles_needs_nobody_else(bare_server: Database) -> None:
    with bare_server.connect(autocommit=True) as connection:
        connection.execute("create role maker nologin nosuperuser createrole")
    with new_database(bare_server) as database:
        with database.connect(autocommit=True) as connection:
            connection.execute(f"alter database {connection.info.dbname} owner to maker".encode())
            connection.execute("alter schema public owner to maker")
            # What an earlier test left on the server was made by somebody else, who has to share it.
            for (role,) in connection.execute(
                "select rolname from pg_roles where rolname like 'threadhouse\\_%'"
            ).fetchall():
                connection.execute(f"grant {role} to maker with admin option".encode())
        made = DatabaseOfMaker(database.conninfo, is_embedded=True)
        migrations.migrate(made)
        with made.connect() as connection:
            assert row_security_gaps(connection) == []
            begin_reading(connection, lane_principal(Audience.EMPLOYEE))
            row = connection.execute("select current_user, session_user").fetchone()
            assert row == ("threadhouse_employee", "maker")
            connection.execute("select * from visible.information_unit")
            continue_as(connection, READER_ROLE)
            connection.execute("select * from nao.delivered_pack")


def test_databases_of_one_server_are_set_up_at_once(bare_server: Database) -> None:
    with (
        new_database(bare_server) as a,
        new_database(bare_server) as b,
        new_database(bare_server) as c,
    ):
        faults: list[BaseException] = []

        def set_up(database: Database) -> None:
            try:
                migrations.migrate(database)
            except BaseException as error:  # noqa: BLE001  # whatever it is, it is what this test looks for
                faults.append(error)

        threads = [threading.Thread(target=set_up, args=(database,)) for database in (a, b, c)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        for database in (a, b, c):
            with database.connect() as connection:
                assert row_security_gaps(connection) == []


REDEFINED: LiteralString = """
create or replace view source.information_unit as
select a.id as logical_unit_id, a.id as document_id, a.id as canonical_address, 'note' as unit_kind, 'law' as lifecycle_stage
     , 0 as ordinal, a.audience as visibility, 'published' as readiness, 'published' as publication_state, 'low' as risk_class
     , 'enacted' as authority, 'unclassified' as data_classification, a.version as unit_version_id, 1 as revision, a.id as title
     , a.text as body, '' as content_hash, now() as created_at, a.id as document_title, a.id as path, 'vi' as language
     , '{}'::text[] as tags
from public.their_note a
"""


def test_a_redefined_source_view_is_kept_and_seen_by_lane(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(
            """create table public.their_note
               (id text primary key, audience text, text text, version uuid default gen_random_uuid())"""
        )
        connection.execute(
            """insert into public.their_note (id, audience, text)
               values ('a', 'public', 'x'), ('b', 'partner', 'y'), ('c', 'PUBLIC', 'z'), ('d', null, 'z')"""
        )
        connection.execute(REDEFINED)
    migrations.migrate(database)
    with database.connect() as connection:
        assert connection.execute("select count(*) from source.information_unit").fetchone() == (4,)
        seen = {
            audience: seen_by_the_role(connection, lane_principal(audience))["units"]
            for audience in (Audience.CUSTOMER, Audience.PARTNER)
        }
    assert seen == {Audience.CUSTOMER: {"a"}, Audience.PARTNER: {"a", "b"}}


def test_a_source_view_can_be_dropped_to_get_the_built_in_one(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("drop view source.universal_edge cascade")
    assert migrations.migrate(database).views_were_run
    with database.connect() as connection:
        assert row_security_gaps(connection) == []
        begin_reading(connection, lane_principal(Audience.CUSTOMER))
        assert connection.execute("select count(*) from visible.universal_edge").fetchone() == (0,)


def test_setting_up_again_changes_nothing(database: Database) -> None:
    def shape(connection: Connection[TupleRow]) -> list[TupleRow]:
        return connection.execute(
            """select polrelid::regclass::text, polname, pg_get_expr(polqual, polrelid) from pg_policy
               union all
               select oid::regclass::text, 'acl', relacl::text from pg_class
               where relnamespace in ('visible'::regnamespace, 'nao'::regnamespace)
               order by 1, 2"""
        ).fetchall()

    with database.connect() as connection:
        before = shape(connection)
        connection.execute("select cong.set_up_roles()")
        assert shape(connection) == before
