"""Documents change sides in one moment, whole, and nothing of what people did to their units is lost.

Method: a legacy document is published, moved to units made of its text and moved back, and after everything that happens we look
through a reader's eyes: a search over both collections that reads back what is live, and the texts that it may then show.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from content_house import CENTROIDS, DOCUMENTS, UNITS, ContentHouse
from counting_embedder import HashEmbedder
from fixtures_postgres import new_database
from hub_rows import add_document, add_unit, write_version
from search_house import open_policy, prepare
from threadhouse.pipelines.cli_documents import STAGES
from threadhouse.retrieval.errors import DocumentMigrationError
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    DocumentId,
    LifecycleStage,
    Principal,
    UnitId,
)
from threadhouse.retrieval.ports import VectorSearcher
from threadhouse.retrieval.projection import ContentScope
from threadhouse.retrieval.search import SearchOutcome, search_collections
from threadhouse.retrieval.search_hits import LiveOwner
from threadhouse.stores import projection
from threadhouse.stores.document_migration import (
    PlannedMove,
    UnitRules,
    ask_for_legacy,
    ask_for_units,
    document_sides,
    plan_units,
)
from threadhouse.stores.knowledge import open_knowledge
from threadhouse.stores.live_owners import PostgresLiveOwners
from threadhouse.stores.loading import load_path
from threadhouse.stores.postgres import Database

BODY = """# Quy định

Phần mở đầu về nghỉ phép.

## Nghỉ phép năm

Mười hai ngày một năm.

## Hoàn tiền {#refund visibility=partner}

### Trong bảy ngày

Hoàn tiền trong bảy ngày.

### Sau bảy ngày

Không hoàn tiền.
"""
ADDRESSES = ["old/0", "old/1", "old/2.1", "old/2.2"]
NO_RULES = UnitRules()
WHO = "an@desk"


@pytest.fixture
def house(database: Database, tmp_path: Path) -> ContentHouse:
    """One legacy document to be moved among others, published."""
    house = ContentHouse(database, tmp_path)
    _fill(house)
    return house


def _fill(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_document(connection, "old", body=BODY)
        add_document(connection, "loaded", body="Có đơn vị.")
        add_unit(connection, "loaded/1", "loaded", "Đơn vị đã nạp.")
        for number in range(6):
            add_document(connection, f"other-{number}", body=f"Văn bản khác {number}.")
            add_unit(connection, f"unit-{number}", "loaded", f"Đơn vị {number}.")
    house.publish()


def publish(house: ContentHouse) -> None:
    house.publish(scope=ContentScope(documents=frozenset({"old"})))


def migrate(house: ContentHouse) -> None:
    ask_for_units(house.database, ["old"], NO_RULES, WHO)
    publish(house)


def back_out(house: ContentHouse, *, force: bool = False) -> None:
    ask_for_legacy(house.database, ["old"], WHO, force=force)
    publish(house)


def search(
    house: ContentHouse,
    searcher: VectorSearcher,
    live: object = None,
    order: Sequence[Collection] = (UNITS, DOCUMENTS),
) -> SearchOutcome:
    return search_collections(
        prepare("nghỉ phép năm hoàn tiền"),
        Principal("tester", Audience.EMPLOYEE),
        order,
        policy=open_policy(),
        searcher=searcher,
        live=live or PostgresLiveOwners(house.database.connect),  # pyright: ignore[reportArgumentType]
        limit=100,
    )


def findings(house: ContentHouse) -> dict[str, Any]:
    """What an audit finds in the two collections of content; threads are built by others."""
    return {name: kinds for name, kinds in house.findings().items() if name != CENTROIDS}


def side_of(house: ContentHouse) -> str:
    """Where a reader finds the document; it must be one side, in the search, in the pointers and in the texts."""
    with house.reader() as searcher:
        found = {hit.collection for hit in search(house, searcher).hits if hit.document_id == "old"}
    assert len(found) == 1, f"found in {found}"
    units = house.pointers(UNITS).keys() & set(ADDRESSES)
    assert units in (set(), set(ADDRESSES)), "some units only"
    assert bool(units) != ("old" in house.pointers(DOCUMENTS))
    with open_knowledge(house.database) as knowledge:
        texts = len(list(knowledge.visible_units([UnitId(each) for each in ADDRESSES])))
        documents = len(list(knowledge.visible_documents([DocumentId("old")])))
    assert (texts, documents) in ((0, 1), (len(ADDRESSES), 0))
    assert bool(units) == bool(texts) == (found == {UNITS})
    return "units" if units else "legacy"


def test_a_document_moves_to_its_units_and_back_and_the_stores_hold_exactly_what_they_should(
    house: ContentHouse,
) -> None:
    assert side_of(house) == "legacy"
    planned = plan_units(house.database, ["old"], NO_RULES)
    moves = ask_for_units(house.database, ["old"], NO_RULES, WHO)
    assert moves == planned
    assert [unit.address for unit in moves[0].units] == ADDRESSES
    assert side_of(house) == "legacy", "asking is not switching"
    publish(house)
    assert (side_of(house), findings(house)) == ("units", {})
    assert "old" not in house.owners(DOCUMENTS)
    back_out(house)
    assert (side_of(house), findings(house)) == ("legacy", {})
    assert house.owners(UNITS).isdisjoint(ADDRESSES)
    migrate(house)
    assert (side_of(house), findings(house)) == ("units", {})
    third = house.publish()
    assert (third.vector_writes, third.owners_published) == (0, 0)
    assert house.rows(
        "select wanted, unit_count, changed_by from nao.document_side_change order by change_id"
    ) == [(wanted, 4, WHO) for wanted in ("units", "legacy", "units")]


def test_the_nightly_finishes_what_was_asked_for(house: ContentHouse) -> None:
    ask_for_units(house.database, ["old"], NO_RULES, WHO)
    house.publish()
    assert side_of(house) == "units"
    ask_for_legacy(house.database, ["old"], WHO)
    # A publish of something else takes it along, because the document is owed.
    house.publish(scope=ContentScope(documents=frozenset({"other-0"})))
    assert (side_of(house), findings(house)) == ("legacy", {})


def test_the_units_are_those_that_a_load_makes_of_the_same_file(
    database: Database, postgres_server: Database, tmp_path: Path
) -> None:
    front = (
        "---\ndocument_id: rules\ntitle: Quy định\nlanguage: vi\naddress_prefix: R\nunit_kind: clause\nrevision: 3\n"
        "updated_at: 2024-03-01\nlifecycle_stage: law\ndata_classification: confidential\nvisibility: public\n"
        "readiness: published\npublication_state: published\nrisk_class: low\nauthority: enacted\n"
    )
    rows = """select u.logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal, visibility
        , readiness, publication_state, risk_class, authority, data_classification, current_version_id, revision, title, body
        , v.created_at
        from public.tac_logical_unit u join public.tac_unit_version v on v.unit_version_id = u.current_version_id
        order by ordinal"""
    folders = {units: tmp_path / units for units in ("headings", "none")}
    for units, folder in folders.items():
        folder.mkdir()
        (folder / "rules.md").write_text(f"{front}units: {units}\n---\n\n---\n\n{BODY}", "utf-8")
    with new_database(
        postgres_server, ContentHouse(database, tmp_path).rows("select current_database()")[0][0]
    ) as other:
        load_path(other, folders["headings"])
        with other.connect() as connection:
            loaded = connection.execute(rows).fetchall()
    load_path(database, folders["none"])
    house = ContentHouse(database, tmp_path)
    assert house.rows(rows) == []
    ask_for_units(database, ["rules"], UnitRules("R", "clause"), WHO)
    assert house.rows(rows) == loaded
    assert len(loaded) == 4
    report = load_path(database, folders["headings"])
    assert house.rows(rows) == loaded
    assert report.to_json()["tables"] is not None


STEPS_OF_ANY_PUBLISH = {"planned", "access", "verified", "copies", "pointers", "cleaned"}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("goal", ["units", "legacy"])
def test_killed_anywhere_the_document_is_on_one_side_and_the_next_publish_finishes(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: str
) -> None:
    """The steps are those that an undisturbed run names, so that a new one is covered by itself."""
    # Nobody searches while a step is looked at.
    monkeypatch.setattr(projection, "SWITCH_GRACE_S", 0)
    house = ContentHouse(database, tmp_path, engine="edge")
    _fill(house)
    origin = "legacy" if goal == "units" else "units"
    if goal == "legacy":
        migrate(house)
    steps: list[str] = []
    _ask(house, goal)
    house.publish(steps.append, scope=ContentScope(documents=frozenset({"old"})))
    assert side_of(house) == goal
    assert set(steps) >= STEPS_OF_ANY_PUBLISH
    for step in ["asked", *steps]:
        (back_out if goal == "units" else migrate)(house)
        assert _killed_in_child(house, goal, step) == -signal.SIGKILL
        is_switched = step != "asked" and steps.index(step) >= steps.index("pointers")
        assert side_of(house) == (goal if is_switched else origin), step
        publish(house)
        assert side_of(house) == goal, step
    assert findings(house) == {}


def _ask(house: ContentHouse, goal: str) -> None:
    if goal == "units":
        ask_for_units(house.database, ["old"], NO_RULES, WHO)
    else:
        ask_for_legacy(house.database, ["old"], WHO)


def _go_to(house: ContentHouse, side: str) -> None:
    if side_of(house) != side:
        (migrate if side == "units" else back_out)(house)


def _killed_in_child(house: ContentHouse, goal: str, step: str) -> int:
    child = subprocess.run(
        [sys.executable, __file__, house.database.conninfo, str(house.home), goal, step],
        check=False,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{Path(__file__).parents[1]}:{os.environ.get('PYTHONPATH', '')}",
        },
    )
    if child.returncode not in (0, -signal.SIGKILL):
        pytest.fail(child.stderr)
    return child.returncode


class _StoppedError(Exception):
    """Somebody stopped the publish here."""


def _stop_after_the_pointers(step: str) -> None:
    if step == "pointers":
        raise _StoppedError


class _SwitchBeforeAnswer:
    """Reads back what is live, and lets the switch happen when a collection's candidates are found and not read back yet."""

    def __init__(self, house: ContentHouse, before: Collection, switch: Callable[[], None]) -> None:
        self._inner = PostgresLiveOwners(house.database.connect)
        self._before = before
        self._switch: Callable[[], None] | None = switch

    def ask_owners(
        self, collection: Collection, physical: str, owner_ids: Sequence[str]
    ) -> Callable[[], Mapping[str, LiveOwner]]:
        if self._switch is not None and collection is self._before:
            switch, self._switch = self._switch, None
            switch()
        return self._inner.ask_owners(collection, physical, owner_ids)


@pytest.mark.parametrize("order", [(UNITS, DOCUMENTS), (DOCUMENTS, UNITS)])
def test_a_search_that_a_switch_overtakes_finds_the_document_once(
    house: ContentHouse, order: tuple[Collection, ...]
) -> None:
    """The old points are still there: a publish leaves them for longer than a search takes."""

    def switch() -> None:
        with pytest.raises(_StoppedError):
            house.publish(_stop_after_the_pointers)

    for goal in ("units", "legacy"):
        for before in (UNITS, DOCUMENTS):
            _go_to(house, "legacy" if goal == "units" else "units")
            _ask(house, goal)
            live = _SwitchBeforeAnswer(house, before, switch)
            with house.reader() as searcher:
                outcome = search(house, searcher, live, order)
            found = [hit for hit in outcome.hits if hit.document_id == "old"]
            assert len(found) == 1, (goal, before)
            publish(house)
            assert side_of(house) == goal


def test_readers_beside_the_moves_always_find_the_document_once(
    database: Database, tmp_path: Path
) -> None:
    house = ContentHouse(database, tmp_path, engine="edge")
    _fill(house)
    stop = threading.Event()
    found: list[list[Collection]] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                with house.reader() as searcher:
                    hits = search(house, searcher).hits
                found.append([hit.collection for hit in hits if hit.document_id == "old"])
        except BaseException as error:  # noqa: BLE001  told by the test
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(2):
            migrate(house)
            back_out(house)
    finally:
        stop.set()
        reader.join()
    assert failures == []
    assert {len(each) for each in found} == {1}
    assert {each[0] for each in found} == {UNITS, DOCUMENTS}


def _thread(house: ContentHouse) -> None:
    house.change(
        """insert into public.semantic_thread
           (thread_id, canonical_address, title, visibility, readiness, publication_state, risk_class, authority)
           values ('leave', 'T/leave', 'Nghỉ phép', 'public', 'published', 'published', 'low', 'enacted')"""
    )
    house.change(
        "insert into public.thread_membership values ('leave', 'old/1', 'canonical', 1, 'confirmed')"
    )


def _version(house: ContentHouse) -> None:
    with house.connect() as connection:
        write_version(connection, "old/1", "Mười bốn ngày một năm.")


def _labels(house: ContentHouse) -> None:
    house.change(
        "update public.tac_logical_unit set visibility = 'restricted' where logical_unit_id = 'old/1'"
    )


def _deletion(house: ContentHouse) -> None:
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'old/1'")


def _addition(house: ContentHouse) -> None:
    with house.connect() as connection:
        add_unit(connection, "old/new", "old", "Thêm vào.")


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (_thread, "unit old/1 is in thread leave"),
        (_version, "unit old/1 has a new version"),
        (_labels, "the row of unit old/1 was changed"),
        (_deletion, "unit old/1 was deleted"),
        (_addition, "unit old/new was added"),
    ],
)
def test_what_somebody_did_to_the_units_holds_the_way_back(
    house: ContentHouse, act: Callable[[ContentHouse], None], reason: str
) -> None:
    migrate(house)
    act(house)
    house.publish()
    before = _everything(house)
    with pytest.raises(DocumentMigrationError, match=f"{reason}; --force"):
        ask_for_legacy(house.database, ["old"], WHO)
    house.publish()
    assert _everything(house) == before
    back_out(house, force=True)
    assert _everything(house) == before, (
        "versions, memberships and labels are put away, not deleted"
    )
    assert document_sides(house.database, ["old"])[0].side == "legacy"
    assert findings(house) == {}
    migrate(house)
    assert _everything(house) == before
    assert (document_sides(house.database, ["old"])[0].side, findings(house)) == ("units", {})
    with pytest.raises(DocumentMigrationError, match=reason):
        ask_for_legacy(house.database, ["old"], WHO)


def _everything(house: ContentHouse) -> list[Any]:
    return [
        house.rows("select to_jsonb(u) from public.tac_logical_unit u order by logical_unit_id"),
        house.rows("select to_jsonb(v) from public.tac_unit_version v order by unit_version_id"),
        house.rows("select to_jsonb(m) from public.thread_membership m order by logical_unit_id"),
    ]


def test_threads_hear_of_units_that_come_and_go_with_a_document(house: ContentHouse) -> None:
    migrate(house)
    _thread(house)

    def revision() -> int:
        return house.rows("select input_revision from public.semantic_thread")[0][0]

    before = revision()
    back_out(house, force=True)
    put_away = revision()
    assert put_away > before
    assert house.rows("select count(*) from source.information_unit where document_id = 'old'") == [
        (0,)
    ]
    migrate(house)
    assert revision() > put_away


def test_a_text_that_changed_on_the_legacy_side_is_cut_anew(house: ContentHouse) -> None:
    migrate(house)
    back_out(house)
    house.change(
        "update public.production_document set body = %s where document_id = 'old'",
        "## Nghỉ phép năm\n\nMười lăm ngày một năm.\n",
    )
    house.publish()
    assert document_sides(house.database, ["old"])[0].side == "legacy"
    migrate(house)
    shown = house.rows(
        "select logical_unit_id, revision, body, readiness from source.information_unit where document_id = 'old' order by 1"
    )
    assert [row[:1] + row[3:] for row in shown] == [
        ("old/0", "superseded"),
        ("old/1", "published"),
        ("old/2.1", "superseded"),
        ("old/2.2", "superseded"),
    ]
    assert shown[1][2] == "Mười lăm ngày một năm."
    assert findings(house) == {}


def test_a_text_that_changes_while_it_is_embedded_leaves_the_document_whole_on_its_side(
    house: ContentHouse,
) -> None:
    ask_for_units(house.database, ["old"], NO_RULES, WHO)

    def write(step: str) -> None:
        if step == "copies":
            with house.connect() as connection:
                write_version(connection, "old/1", "Mười ba ngày.")

    house.publish(write, scope=ContentScope(documents=frozenset({"old"})))
    assert side_of(house) == "legacy"
    house.publish()
    assert (side_of(house), findings(house)) == ("units", {})


def test_a_document_without_headings_is_one_unit(house: ContentHouse) -> None:
    moves = ask_for_units(house.database, ["other-1"], UnitRules("P"), WHO)
    assert [(unit.address, unit.title, unit.chars) for unit in moves[0].units] == [
        ("P/0", "Quy định", len("Văn bản khác 1."))
    ]


BAD: list[tuple[str, Sequence[str], UnitRules, str]] = [
    ("unknown", ["nobody"], NO_RULES, "There is no document nobody; no document was moved"),
    ("without text", ["empty"], NO_RULES, "Document empty has no text to make units of"),
    ("with units", ["loaded"], NO_RULES, "Document loaded has 7 units already"),
    ("no stage", ["stageless"], NO_RULES, "has no lifecycle_stage"),
    ("cannot be cut", ["torn"], NO_RULES, "cannot be cut on line 1 of its text: visibilty"),
    (
        "taken address",
        ["other-0"],
        UnitRules("taken"),
        "Unit taken/0 is there already, in document loaded",
    ),
    ("same addresses", ["other-0", "other-1"], UnitRules("P"), "the same key was given before"),
]


@pytest.mark.parametrize(
    ("ids", "rules", "reason"), [bad[1:] for bad in BAD], ids=[b[0] for b in BAD]
)
def test_bad_input_is_one_sentence_and_moves_nothing(
    house: ContentHouse, ids: Sequence[str], rules: UnitRules, reason: str
) -> None:
    with house.connect() as connection:
        add_document(connection, "empty", body="")
        add_document(connection, "torn", body="## A {visibilty=internal}\n\nText.\n")
        add_document(connection, "stageless", body="Text.")
        add_unit(connection, "taken/0", "other-5", "Đã có.")
    house.change(
        "update public.production_document set lifecycle_stage = null where document_id = 'stageless'"
    )
    house.change(
        "update public.tac_logical_unit set document_id = 'loaded' where logical_unit_id = 'taken/0'"
    )
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'unit-5'")
    before = _everything(house)
    # A document that could move stands beside the one that cannot.
    with pytest.raises(DocumentMigrationError) as refused:
        ask_for_units(house.database, ["old", *ids], UnitRules(rules.address_prefix), WHO)
    if rules.address_prefix is None:
        assert reason in str(refused.value)
    with pytest.raises(DocumentMigrationError) as alone:
        ask_for_units(house.database, ids, rules, WHO)
    assert reason in str(alone.value)
    assert "\n" not in str(alone.value)
    assert _everything(house) == before
    assert house.rows("select * from nao.document_side") == []


@pytest.mark.parametrize(
    ("document_id", "reason"),
    [("other-0", "is on the legacy side already"), ("loaded", "were not made by migrate-document")],
)
def test_only_what_was_moved_moves_back(house: ContentHouse, document_id: str, reason: str) -> None:
    migrate(house)
    with pytest.raises(DocumentMigrationError, match=reason):
        ask_for_legacy(house.database, ["old", document_id], WHO)
    assert side_of(house) == "units"
    with pytest.raises(DocumentMigrationError, match="has 4 units already"):
        ask_for_units(house.database, ["old"], NO_RULES, WHO)


def test_a_source_that_is_somebody_elses_is_not_written(house: ContentHouse) -> None:
    definition = house.rows("select pg_get_viewdef('source.information_unit'::regclass)")[0][0]
    assert "document_in_legacy" in definition
    with house.connect() as connection:
        connection.execute(
            "create or replace view source.information_unit as "
            + definition.replace(
                "nao.document_in_legacy", "(select ''::text as document_id where false)"
            )
        )
    with pytest.raises(DocumentMigrationError, match="views of its owner"):
        ask_for_units(house.database, ["old"], NO_RULES, WHO)
    with pytest.raises(DocumentMigrationError, match="views of its owner"):
        ask_for_legacy(house.database, ["old"], WHO)


def test_asking_twice_is_asking_once(house: ContentHouse) -> None:
    ask_for_units(house.database, ["old"], NO_RULES, WHO)
    again = ask_for_units(house.database, ["old"], NO_RULES, "binh")
    assert again == [PlannedMove("old", is_under_way=True)]
    assert len(house.rows("select * from nao.document_side_change")) == 1
    # Changed one's mind before it was published.
    ask_for_legacy(house.database, ["old"], "binh")
    publish(house)
    assert side_of(house) == "legacy"


def test_the_command_knows_the_stages() -> None:
    assert set(STAGES) == set(LifecycleStage)


if __name__ == "__main__":
    conninfo, home_name, goal_side, kill_step = sys.argv[1:]
    child_house = ContentHouse(
        Database(conninfo, is_embedded=True), Path(home_name), engine="edge", inner=HashEmbedder()
    )
    _ask(child_house, goal_side)

    def kill_here(name: str) -> None:
        if name == kill_step:
            os.kill(os.getpid(), signal.SIGKILL)

    kill_here("asked")
    child_house.publish(kill_here, scope=ContentScope(documents=frozenset({"old"})))
