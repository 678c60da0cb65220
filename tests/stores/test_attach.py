"""Attaching somebody else's database: refused whole or taken whole, its tables as they were, its changes in the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from attached_house import SOURCES, make_directus
from content_house import DOCUMENTS, UNITS, ContentHouse
from hub_rows import add_document, add_unit
from sync_house import assert_agrees, build, follow
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import AttachError, MigrationError
from threadhouse.retrieval.models import Audience
from threadhouse.stores import attached_sources, migrations
from threadhouse.stores.attached_sources import (
    attach,
    attach_state,
    detach,
    follow_sources,
)
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import begin_reading

BODY = SOURCES.read_text(encoding="utf-8")
SHAPE = """
select 'column', a.attrelid::regclass::text, a.attname::text, format_type(a.atttypid, a.atttypmod) || a.attnotnull
from pg_attribute a join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'i')
union all
select 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)
from pg_constraint where connamespace = 'public'::regnamespace
union all
select 'trigger', tgrelid::regclass::text, tgname::text, ''
from pg_trigger where not tgisinternal and tgname not like 'threadhouse_note_%'
union all
select 'security', oid::regclass::text, relrowsecurity::text, coalesce(relacl::text, '') from pg_class
where relname in ('pages', 'sections', 'topics', 'topics_sections')
order by 1, 2, 3, 4
"""


@pytest.fixture
def theirs(database: Database) -> Database:
    with database.connect() as connection:
        make_directus(connection)
    return database


def rows(database: Database, statement: str) -> list[TupleRow]:
    with database.connect() as connection:
        return connection.execute(statement.encode()).fetchall()


def change(database: Database, statement: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode())


def log_after(database: Database, act: Callable[[], object]) -> set[tuple[str, str, str, str]]:
    """Entries of the change log that an act makes."""
    change(database, "delete from nao.change_log")
    act()
    return {
        (table, key, op, lane)
        for table, key, op, lane in rows(
            database, "select table_name, row_key, op, lane from nao.change_log"
        )
    }


def whole_state(database: Database) -> list[TupleRow]:
    """Every view of schema source, every trigger, every schema."""
    return rows(
        database,
        "select relname::text, pg_get_viewdef(oid) from pg_class where relkind = 'v' and relnamespace = 'source'::regnamespace"
        " union all select tgname::text, tgrelid::regclass::text from pg_trigger"
        " union all select nspname::text, '' from pg_namespace where nspname !~ '^pg_'"
        " union all select 'files', count(*)::text from nao.attached_file order by 1, 2",
    )


# --- Taken ----------------------------------------------------------------------------------------------------------------


def test_the_example_attaches_and_every_lane_sees_its_own(theirs: Database) -> None:
    report = attach(theirs, "directus.sql", BODY)
    assert report.views == (
        "information_unit",
        "production_document",
        "semantic_thread",
        "thread_membership",
    )
    assert report.own_views == ("expected_artifact_missing", "universal_edge", "vocabulary_label")
    assert report.changes_logged == 12 + 3 + 2 + 12
    seen: dict[Audience, set[str]] = {}
    with theirs.connect() as connection:
        for audience in (Audience.CUSTOMER, Audience.EMPLOYEE):
            with connection.transaction():
                begin_reading(connection, lane_principal(audience))
                found = connection.execute(
                    "select u.canonical_address, t.thread_id from visible.information_unit u, visible.semantic_thread t"
                ).fetchall()
            seen[audience] = {address.partition("#")[0] for address, _ in found}
    assert seen == {Audience.CUSTOMER: {"hoan-tien"}, Audience.EMPLOYEE: {"hoan-tien", "so-tay"}}


def test_their_tables_stay_as_they_were(theirs: Database) -> None:
    before = rows(theirs, SHAPE)
    attach(theirs, "directus.sql", BODY)
    assert rows(theirs, SHAPE) == before
    detach(theirs)
    assert rows(theirs, SHAPE) == before
    assert rows(theirs, "select tgname from pg_trigger where tgname like 'threadhouse%'") == []


def test_attaching_again_changes_nothing(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    assert attach(theirs, "directus.sql", BODY).changes_logged == 0
    assert migrations.migrate(theirs).views_were_run is False


def test_views_that_are_made_anew_keep_what_is_attached(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "delete from cong.schema_view_set")
    change(theirs, "drop view source.universal_edge cascade")
    migrations.migrate(theirs)
    assert rows(theirs, "select count(*) from source.information_unit") == [(12,)]


def test_our_own_tables_are_seen_beside_theirs(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    with theirs.connect() as connection:
        add_document(connection, "ours")
        add_unit(connection, "our-unit", "ours", "Của chúng tôi.")
    assert rows(theirs, "select count(*) from source.information_unit") == [(13,)]
    assert rows(theirs, "select count(*) from source.production_document") == [(4,)]


def test_detaching_logs_what_is_gone(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    log = log_after(theirs, lambda: detach(theirs))
    assert {(table, op) for table, _, op, _ in log} == {
        (table, "delete")
        for table in (
            "production_document",
            "tac_logical_unit",
            "semantic_thread",
            "thread_membership",
        )
    }
    assert rows(theirs, "select count(*) from source.information_unit") == [(0,)]
    assert attach_state(theirs) is None
    assert follow_sources(theirs).changes_logged == 0


# --- Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("find", "put", "faults"),
    [
        pytest.param(
            "array(select jsonb_array_elements_text(p.tags)) as tags",
            "p.tags",
            [
                f"source.{view}.tags is jsonb; expected text[], such as array(select jsonb_array_elements_text(tags))."
                for view in ("information_unit", "production_document")
            ],
            id="wrong type, in both views",
        ),
        pytest.param(
            "     , 'confirmed' as status\n     , null::text as evidence",
            "",
            [
                "source.thread_membership.status is missing; expected text.",
                "source.thread_membership.evidence is missing; expected text.",
            ],
            id="two columns missing",
        ),
        pytest.param(
            "coalesce(p.date_updated, p.date_created) as updated_at",
            "coalesce(p.date_updated, p.date_created)::timestamp as updated_at",
            [
                "source.production_document.updated_at is timestamp without time zone; expected timestamp with time zone,"
                " such as updated_at at time zone 'UTC'."
            ],
            id="an instant without a zone",
        ),
        pytest.param(
            "from public.pages p;",
            "from public.pages p, generate_series(1, 2);",
            [
                "source.information_unit has 12 rows whose logical_unit_id another row has too.",
                "source.production_document has 3 rows whose document_id another row has too.",
            ],
            id="rows that come twice",
        ),
        pytest.param(
            "from public.topics t;",
            "from public.topicz t;",
            ['line 70: relation "public.topicz" does not exist.'],
            id="a table that is not there",
        ),
        pytest.param(
            "-- changes: public.sections.id ->",
            "-- changes: public.sections.idd ->",
            ["line 7: public.sections has no column idd."],
            id="a column that is not there",
        ),
        pytest.param(
            "-- changes: public.topics.slug -> semantic_thread.thread_id",
            "-- changes: public.directus_users.id -> semantic_thread.thread_id",
            ["line 8: public.directus_users is not behind source.semantic_thread."],
            id="a table that is not behind the view",
        ),
        pytest.param(
            "thread_membership.thread_id\n",
            "thread_membership.role\n",
            [
                "line 9: rows of source.thread_membership are found by thread_id, logical_unit_id, not by role."
            ],
            id="a column that rows are not found by",
        ),
    ],
)
def test_everything_that_is_wrong_is_said_at_once_and_nothing_is_changed(
    theirs: Database, find: str, put: str, faults: list[str]
) -> None:
    assert find in BODY
    before = whole_state(theirs)
    with pytest.raises(AttachError) as caught:
        attach(theirs, "directus.sql", BODY.replace(find, put))
    said = str(caught.value)
    assert said.startswith("directus.sql cannot be attached, and nothing was changed:\n")
    assert [fault for fault in faults if fault not in said] == []
    assert whole_state(theirs) == before


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (
            "alter table public.pages add column x int",
            "'alter table public.pages add column x int' is",
        ),
        ("drop table public.topics cascade", "'drop table public.topics cascade' is not allowed"),
        ("commit", "'commit' is not allowed"),
        (
            "create view public.mine as select 1 as a",
            "'create view public.mine as select 1 as a' is",
        ),
        ("select pg_sleep(0)", "'select pg_sleep(0)' is not allowed"),
        (
            "comment on view source.semantic_thread is 'x'; drop schema nao cascade",
            "'drop schema nao",
        ),
        ("$a$;$a$; delete from public.pages", "'delete from public.pages' is not allowed"),
    ],
)
def test_a_file_that_does_more_than_make_views_is_refused(
    theirs: Database, statement: str, fault: str
) -> None:
    before = whole_state(theirs), rows(theirs, SHAPE)
    with pytest.raises(AttachError) as caught:
        attach(theirs, "directus.sql", f"{BODY}\n{statement};\n")
    assert fault in str(caught.value)
    assert (whole_state(theirs), rows(theirs, SHAPE)) == before


@pytest.mark.parametrize(
    ("smuggled", "fault"),
    [
        pytest.param(
            "alter table public.pages add column x int",
            "it changes columns outside of its views.",
            id="alters a table",
        ),
        pytest.param(
            "comment on table public.pages is 'x'",
            "it changes comments outside of its views.",
            id="comments on a table",
        ),
        pytest.param(
            "create function public.f() returns int language sql as 'select 1'",
            "it changes functions outside of its views.",
            id="makes a function",
        ),
        pytest.param("commit", "EXECUTE of transaction commands", id="ends the transaction"),
        pytest.param(
            "insert into public.directus_users (email) values ('x')",
            "it writes rows of",
            id="writes rows",
        ),
    ],
)
def test_what_gets_past_the_reading_of_the_file_is_found_by_comparing_the_catalogue(
    theirs: Database, monkeypatch: pytest.MonkeyPatch, smuggled: str, fault: str
) -> None:
    """The file's text is not what protects the tables: what it did is looked at before anything is kept."""
    real = attached_sources.read_attached_file

    def blind(body: str) -> object:
        return real(BODY).__class__(body, real(BODY).changes, ())

    monkeypatch.setattr(attached_sources, "read_attached_file", blind)
    before = whole_state(theirs), rows(theirs, SHAPE)
    with pytest.raises(AttachError, match=fault):
        attach(theirs, "directus.sql", f"{BODY}\n{smuggled};\n")
    assert (whole_state(theirs), rows(theirs, SHAPE)) == before


def test_a_view_that_writes_when_it_is_read_is_refused(theirs: Database) -> None:
    change(
        theirs,
        "create function public.spy() returns text language sql volatile as"
        " $$ insert into public.directus_users (email) values ('x') returning email $$",
    )
    body = BODY.replace("'section' as unit_kind", "public.spy() as unit_kind").replace(
        "where s.content <> ''", "where public.spy() = 'x'"
    )
    with pytest.raises(AttachError, match="writes rows of directus_users"):
        attach(theirs, "directus.sql", body)
    assert rows(theirs, "select count(*) from public.directus_users") == [(0,)]


def test_what_somebody_built_on_an_attached_view_is_not_taken_away(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "create view public.theirs as select * from attached.semantic_thread")
    with pytest.raises(AttachError, match=r"view theirs depends on view attached\.semantic_thread"):
        detach(theirs)
    assert rows(theirs, "select count(*) from public.theirs") == [(2,)]


# --- Followed -------------------------------------------------------------------------------------------------------------

CHANGES = {
    "a text": (
        "update public.sections set content = 'Mới.' where id = 1",
        {("tac_logical_unit", "1", "update", "content")},
    ),
    "a section that is gone": (
        "delete from public.sections where id = 1",
        {
            ("tac_logical_unit", "1", "delete", "content"),
            ("thread_membership", "hoan-tien/1", "delete", "thread"),
        },
    ),
    "another name of a topic": (
        "update public.topics set name = 'Trả tiền' where slug = 'hoan-tien'",
        {("semantic_thread", "hoan-tien", "update", "thread")},
    ),
    "another key of a topic": (
        "update public.topics set slug = 'tra-tien' where slug = 'noi-bo'",
        {
            ("semantic_thread", "noi-bo", "delete", "thread"),
            ("semantic_thread", "tra-tien", "insert", "thread"),
            *(("thread_membership", f"noi-bo/{n}", "delete", "thread") for n in range(5, 9)),
            *(("thread_membership", f"tra-tien/{n}", "insert", "thread") for n in range(5, 9)),
        },
    ),
    "what nobody is shown": ("insert into public.directus_users (email) values ('x')", set()),
    "nothing new": ("update public.topics set name = name", set()),
    "every member": (
        "truncate public.topics_sections",
        {
            (
                "thread_membership",
                f"{'noi-bo' if 5 <= n <= 8 else 'hoan-tien'}/{n}",
                "delete",
                "thread",
            )
            for n in range(1, 13)
        },
    ),
}


@pytest.mark.parametrize("triggers", [True, False], ids=["noted", "compared"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_in_their_tables_is_logged_once(
    theirs: Database, name: str, triggers: bool
) -> None:
    attach(theirs, "directus.sql", BODY, triggers=triggers)
    statement, expected = CHANGES[name]

    def act() -> None:
        change(theirs, statement)
        follow_until_seen(theirs, expects=bool(expected))

    assert log_after(theirs, act) == expected
    assert follow_sources(theirs, everything=True).changes_logged == 0


def follow_until_seen(database: Database, *, expects: bool) -> None:
    """The server counts a write up to a second after its commit."""
    deadline = time.monotonic() + (10 if expects else 1.2)
    while follow_sources(database).changes_logged == 0 and time.monotonic() < deadline:
        time.sleep(0.1)


def test_a_revoke_is_logged_as_access_and_first(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "delete from nao.change_log")
    change(
        theirs,
        "update public.pages set audience = 'staff', title = 'Khác' where slug = 'hoan-tien'",
    )
    follow_sources(theirs)
    lanes = rows(theirs, "select table_name, lane from nao.change_log order by change_id")
    units = [lane for table, lane in lanes if table == "tac_logical_unit"]
    assert units == ["access"] * 4 + ["content"] * 4
    assert [lane for table, lane in lanes if table == "production_document"] == [
        "access",
        "content",
    ]


def test_threads_that_a_change_can_affect_count_up_and_others_do_not(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    counted = "select thread_id, input_revision from source.semantic_thread order by 1"
    before = dict(rows(theirs, counted))
    change(theirs, "update public.sections set content = 'Mới.' where id = 1")
    follow_sources(theirs)
    after = dict(rows(theirs, counted))
    assert {thread for thread in after if after[thread] > before[thread]} == {"hoan-tien"}


def test_a_deletion_that_no_trigger_noted_is_found_when_everything_is_compared(
    theirs: Database,
) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "alter table public.topics_sections disable trigger user")

    def act() -> None:
        change(theirs, "delete from public.topics_sections where sections_id = 1")
        assert follow_sources(theirs).changes_logged == 0
        follow_sources(theirs, everything=True)

    assert log_after(theirs, act) == {("thread_membership", "hoan-tien/1", "delete", "thread")}


def test_whoever_writes_is_not_disturbed_when_a_change_cannot_be_noted(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "alter table nao.source_touch rename to elsewhere")
    change(theirs, "update public.topics set name = 'Trả tiền' where slug = 'hoan-tien'")
    change(theirs, "alter table nao.elsewhere rename to source_touch")
    assert follow_sources(theirs, everything=True).changes_logged == 1


def test_the_state_says_how_each_table_is_followed(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, "update public.topics set name = 'x'")
    state = attach_state(theirs)
    assert state is not None
    assert state.touches_waiting == 2
    assert state.problems == ()
    ways = {(t.view, t.table): t.why_not for t in state.tables}
    assert ways[("semantic_thread", "public.topics")] is None
    assert ways[("production_document", "public.sections")] == (
        "no line of the file says what its changes mean"
    )
    attach(theirs, "directus.sql", BODY, triggers=False)
    state = attach_state(theirs)
    assert state is not None
    assert "attached without triggers" in {t.why_not for t in state.tables}


def test_rows_that_cannot_be_told_apart_stop_nothing_and_are_named(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY.replace("where m.topics_slug is not null", "where true"))
    change(theirs, "update public.topics_sections set topics_slug = null where sections_id = 1")
    change(
        theirs,
        "insert into public.topics_sections (topics_slug, sections_id) values ('hoan-tien', 2)",
    )
    change(theirs, "delete from nao.change_log")
    follow_sources(theirs, everything=True)
    assert follow_sources(theirs, everything=True).changes_logged == 0
    state = attach_state(theirs)
    assert state is not None
    assert state.problems == (
        "source.thread_membership has 1 rows without thread_id, logical_unit_id.",
        "source.thread_membership has 1 rows whose thread_id, logical_unit_id another row has too.",
    )


def test_a_view_that_cannot_be_read_any_more_is_named(theirs: Database) -> None:
    attach(theirs, "directus.sql", BODY)
    change(theirs, """update public.pages set tags = '"text"' where slug = 'so-tay'""")
    with pytest.raises(AttachError, match=r"attached view .* cannot be read: cannot extract elem"):
        follow_sources(theirs)


def test_a_login_that_may_only_read_their_tables_compares_them(empty_database: Database) -> None:
    role = "threadhouse_test_guest"
    name = str(conninfo_to_dict(empty_database.conninfo)["dbname"])
    with empty_database.connect() as connection:
        make_directus(connection)
        connection.execute(f"create role {role}".encode())
        connection.execute(f"grant {role} to current_user".encode())
        connection.execute(f"grant create, temporary on database {name} to {role}".encode())
        connection.execute(f"grant all on schema public to {role}".encode())
        connection.execute(f"grant select on all tables in schema public to {role}".encode())
    guest = Database(f"{empty_database.conninfo} options='-c role={role}'", is_embedded=True)
    try:
        migrations.migrate(guest)
        report = attach(guest, "directus.sql", BODY)
        assert not [table for table in report.tables if table.is_noted]
        refused = {table.table for table in report.tables if "may not create" in str(table.why_not)}
        assert refused == {
            f"public.{t}" for t in ("pages", "sections", "topics", "topics_sections")
        }
        change(empty_database, "update public.topics set name = 'x' where slug = 'noi-bo'")
        assert follow_sources(guest, everything=True).changes_logged == 1
    finally:
        with empty_database.connect() as connection:
            connection.execute(f"drop owned by {role} cascade".encode())
            connection.execute(f"drop role {role}".encode())


def test_tables_that_nobody_may_read_are_named(theirs: Database) -> None:
    body = BODY.replace("from public.topics t;", "from public.topics t, public.hidden() h;")
    change(
        theirs,
        "create function public.hidden() returns int language plpgsql as"
        " $$ begin raise insufficient_privilege using message = 'permission denied for table topics'; end $$",
    )
    with pytest.raises(
        AttachError, match=r"source\.semantic_thread cannot be read: permission den"
    ):
        attach(theirs, "directus.sql", body)


# --- Built from -----------------------------------------------------------------------------------------------------------


FOLLOWED = (
    "update public.sections set content = 'Mới.' where id = 1",
    "update public.pages set audience = 'staff', title = 'Quy chế' where slug = 'hoan-tien'",
    "update public.pages set status = 'published' where slug = 'du-thao'",
    "update public.topics set name = 'Trả tiền' where slug = 'hoan-tien'",
    "delete from public.sections where id = 2",
    "update public.sections set page = (select id from public.pages where slug = 'so-tay') where id = 3",
    "insert into public.topics_sections (topics_slug, sections_id) values ('noi-bo', 3)",
    "update public.topics set slug = 'tra-tien' where slug = 'noi-bo'",
)


@pytest.mark.parametrize("triggers", [True, False], ids=["noted", "compared"])
def test_an_attached_hub_is_built_from_and_its_changes_are_followed_like_ours(
    theirs: Database, tmp_path: Path, triggers: bool
) -> None:
    attach(theirs, "directus.sql", BODY, triggers=triggers)
    house = ContentHouse(theirs, tmp_path)
    build(house)
    assert house.owners(UNITS) == {str(number) for number in range(1, 13)}
    assert house.owners(DOCUMENTS) == set()
    assert_agrees(house, "the first night")
    embedded = []
    for statement in FOLLOWED:
        change(theirs, statement)
        if not triggers:
            time.sleep(1.1)  # the server counts a write up to a second after its commit
        report = follow(house)
        embedded.append(report.texts_embedded)
        assert report.changes > 0, statement
        assert_agrees(house, statement)
    # The new text; of a section that moved and of one whose page has another title, the words before it.
    assert embedded[0] == 1
    assert embedded[3:5] == [0, 0]
    assert not follow(house).changes


# --- Tables of our names ---------------------------------------------------------------------------------------------------


def columns_of_public(connection: Connection[TupleRow]) -> list[TupleRow]:
    return connection.execute(SHAPE.encode()).fetchall()


def test_a_database_whose_tables_have_our_names_is_left_alone(empty_database: Database) -> None:
    with empty_database.connect() as connection:
        connection.execute("create table public.tac_logical_unit (id int primary key, code text)")
        connection.execute(
            "create table public.semantic_thread (thread_id uuid primary key, title text)"
        )
        before = columns_of_public(connection)
    with pytest.raises(MigrationError) as caught:
        migrations.migrate(empty_database)
    said = str(caught.value)
    assert "public.semantic_thread" in said
    assert "public.tac_logical_unit" in said
    assert "postgres_fdw" in said
    with empty_database.connect() as connection:
        assert columns_of_public(connection) == before
        assert connection.execute("select to_regnamespace('nao')").fetchone() == (None,)


def test_a_hub_of_our_own_tables_is_taken_over(
    empty_database: Database, database: Database
) -> None:
    """As after a restore of schema public alone."""
    with empty_database.connect() as connection:
        first = migrations.MigrationSet.shipped().migrations[0].body
        connection.execute(first.encode())
    assert migrations.migrate(empty_database).applied
