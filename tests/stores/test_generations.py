"""Another model, another chunking: built beside, switched to, gone back from, dropped, with readers that ask all the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from content_house import CENTROIDS, DOCUMENTS, UNITS, ContentHouse
from counting_embedder import HashEmbedder
from hub_rows import add_document, add_unit, write_version
from threadhouse.retrieval.audience import lane_principal
from threadhouse.retrieval.errors import (
    ConfigurationError,
    ModelUnavailableError,
    ProjectionError,
    SpaceMismatchError,
)
from threadhouse.retrieval.models import Audience, Collection
from threadhouse.serving.retrieval_service import Mode, PackSource, QueryEmbedder, RetrievalService
from threadhouse.stores.embedding_cache import CachedEmbedder
from threadhouse.stores.generations import (
    Generation,
    GenerationState,
    Migration,
    count_generation,
    generation_to_go_back_to,
    generation_to_switch_to,
    read_generations,
    require_counts,
    settle_generations,
)
from threadhouse.stores.leased_connections import LeasedConnections
from threadhouse.stores.model_in_force import ModelPlace
from threadhouse.stores.pack_refresh import refresh_packs
from threadhouse.stores.pack_store import PackStore
from threadhouse.stores.postgres import Database
from threadhouse.stores.projection_sources import UnitSource
from threadhouse.stores.thread_signals import PostgresThreadSignals
from threadhouse.stores.vector_cache import PostgresVectorCache
from threadhouse.stores.vectors import generation_of

OLD, NEW = HashEmbedder(), HashEmbedder("other")
MODELS = {each.space.space_id: each for each in (OLD, NEW)}
HERE = ModelPlace()
READER = lane_principal(Audience.CUSTOMER)


@pytest.fixture(params=["memory", "edge"])
def house(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> ContentHouse:
    """Two units in a thread and a document without units, published with the old model."""
    house = ContentHouse(database, tmp_path, engine=request.param)
    with house.connect() as connection:
        add_document(connection, "law")
        add_document(connection, "legacy", body="Quy trình cũ về khiếu nại của khách hàng. " * 20)
        add_unit(connection, "u1", "law", "Hoàn tiền trong ba ngày.")
        add_unit(connection, "u2", "law", "Khiếu nại bằng văn bản.")
    house.change(
        "insert into public.semantic_thread (thread_id, canonical_address, title) values ('t1', 'T/1', 'Hoàn tiền')"
    )
    for unit in ("u1", "u2"):
        house.change(
            "insert into public.thread_membership values ('t1', %s, 'canonical', 1, 'confirmed')",
            unit,
        )
    with house.writer():
        pass  # opened once, so that copies of the house with another model share what is in memory
    nightly(house, OLD)
    return house


def nightly(house: ContentHouse, model: HashEmbedder) -> None:
    """What a night does to vectors and packs, with one model."""
    with_model = replace(house, inner=model)
    with_model.publish(allowed_deletion_share=None)
    with_model.refresh_centroids()
    refresh_packs(house.database, model.space.space_id)


def migration(house: ContentHouse, on_step: Callable[[str], None] = lambda name: None) -> Migration:
    # A hub of three owners loses a third of them with one.
    return Migration(house.database, house.writer, house.home, allow_deletes=True, on_step=on_step)


def embedder(house: ContentHouse, space_id: str) -> CachedEmbedder:
    return CachedEmbedder(MODELS[space_id], PostgresVectorCache(house.database))


def known(house: ContentHouse) -> list[Generation]:
    with house.reader() as searcher:
        return settle_generations(house.database, searcher, HERE, OLD.space.space_id)


def build(house: ContentHouse, model: HashEmbedder = NEW, *, rebuild: bool = False) -> Generation:
    """Build a generation beside, as far as a command does."""
    space_id = model.space.space_id
    target = migration(house).target(known(house), HERE, space_id, rebuild=rebuild)
    migration(house).build(target, embedder(house, space_id))
    return generation_to_switch_to(known(house))


def counting(house: ContentHouse, generation: Generation) -> Callable[[datetime], None]:
    def verify(since: datetime) -> None:
        with house.reader() as searcher:
            require_counts(count_generation(house.database, searcher, generation, since))

    return verify


def switch(house: ContentHouse, generation: Generation) -> None:
    migration(house).switch(
        generation, embedder(house, generation.space_id), counting(house, generation)
    )


def in_force(house: ContentHouse) -> tuple[str, int]:
    """Space and number of what the aliases mean; all three mean the same."""
    with house.reader() as searcher:
        meant = {generation_of(searcher.aliases()[each]) for each in Collection}
    assert len(meant) == 1
    return meant.pop()


def states(house: ContentHouse) -> dict[tuple[str, int], GenerationState]:
    with house.connect() as connection:
        return {(g.space_id, g.generation): g.state for g in read_generations(connection)}


@contextmanager
def serving(
    house: ContentHouse,
    model: HashEmbedder = OLD,
    others: Callable[[str], QueryEmbedder] | None = MODELS.__getitem__,
) -> Generator[RetrievalService, None, None]:
    with (
        LeasedConnections(house.database, max_size=2) as connections,
        house.reader() as searcher,
    ):
        yield RetrievalService(
            connections=connections,
            searcher=searcher,
            embedder=model,
            signals=PostgresThreadSignals(connections),
            other_embedders=others,
        )


def found_units(service: RetrievalService) -> set[str]:
    answer = service.answer("Hoàn tiền trong ba ngày.", READER, Mode.RAW)
    return {hit.owner_id for hit in answer.hits if hit.collection is UNITS}


def test_a_generation_is_built_beside_and_nothing_that_readers_have_changes(
    house: ContentHouse,
) -> None:
    before = {each: house.points(each) for each in Collection}
    built = build(house)
    assert in_force(house) == (OLD.space.space_id, 1)
    assert {each: house.points(each) for each in Collection} == before
    with house.reader() as searcher:
        counts = count_generation(house.database, searcher, built)
    assert {count.collection: (count.owners, count.differs) for count in counts} == {
        UNITS: (2, 0),
        DOCUMENTS: (1, 0),
        CENTROIDS: (4, 0),
    }
    assert len(PackStore(house.database).keys(NEW.space.space_id)) == 4
    assert house.audit().is_clean


def test_building_again_embeds_and_writes_nothing(house: ContentHouse) -> None:
    built = build(house)
    again = embedder(house, NEW.space.space_id)
    report = migration(house).build(built, again)
    assert (again.counts.texts_embedded, report.chunks_written, report.packs_written) == (0, 0, 0)
    assert states(house)[built.space_id, 1] is GenerationState.BUILT


def test_a_switch_moves_all_collections_and_a_rollback_moves_them_back(house: ContentHouse) -> None:
    switch(house, build(house))
    assert in_force(house) == (NEW.space.space_id, 1)
    assert replace(house, inner=NEW).audit().is_clean
    switch(house, generation_to_go_back_to(known(house)))
    assert in_force(house) == (OLD.space.space_id, 1)
    assert house.audit().is_clean
    assert states(house) == {
        (OLD.space.space_id, 1): GenerationState.IN_FORCE,
        (NEW.space.space_id, 1): GenerationState.BUILT,
    }
    # And forward once more, since the new one is still there.
    switch(house, generation_to_switch_to(known(house)))
    assert in_force(house) == (NEW.space.space_id, 1)


def change_much(house: ContentHouse) -> None:
    """New text, a new unit, a deletion and a revoke."""
    with house.connect() as connection:
        write_version(connection, "u1", "Hoàn tiền trong bảy ngày.")
        add_unit(connection, "u3", "law", "Điều khoản mới.")
    house.change("delete from public.tac_logical_unit where logical_unit_id = 'u2'")
    house.change(
        "update public.production_document set visibility = 'restricted' where document_id = 'legacy'"
    )


def test_what_changes_while_a_generation_is_built_or_kept_is_in_it_when_readers_get_it(
    house: ContentHouse,
) -> None:
    built = build(house)
    change_much(house)
    nightly(house, OLD)
    assert house.audit().is_clean, "the old generation was not kept up to date meanwhile"
    switch(house, built)
    assert replace(house, inner=NEW).audit().is_clean
    with house.connect() as connection:
        write_version(connection, "u3", "Điều khoản khác.")
    nightly(house, NEW)
    switch(house, generation_to_go_back_to(known(house)))
    assert house.audit().is_clean, "the old generation was given to readers as it was left"


def test_a_change_between_the_last_look_and_the_switch_is_taken_along(house: ContentHouse) -> None:
    built = build(house)

    def change_then_count(since: datetime) -> None:
        change_much(house)
        nightly(house, OLD)
        counting(house, built)(since)

    migration(house).switch(built, embedder(house, built.space_id), change_then_count)
    assert replace(house, inner=NEW).audit().is_clean


def test_counts_that_differ_leave_readers_where_they_are(house: ContentHouse) -> None:
    built = build(house)

    def lose_a_point(since: datetime) -> None:
        with house.writer() as store:
            physical = built.names[UNITS]
            store.delete(physical, [next(store.scroll(physical)).point_id])
            store.publish(physical)
        counting(house, built)(since)

    with pytest.raises(ProjectionError, match="1 points missing"):
        migration(house).switch(built, embedder(house, built.space_id), lose_a_point)
    assert in_force(house) == (OLD.space.space_id, 1)
    migration(house).build(built, embedder(house, built.space_id))
    switch(house, built)
    assert in_force(house) == (NEW.space.space_id, 1)


def test_what_is_dropped_is_gone_and_can_be_built_again(house: ContentHouse) -> None:
    switch(house, build(house))
    gone = migration(house).drop(known(house))
    assert [each.space_id for each in gone] == [OLD.space.space_id]
    with house.reader() as searcher:
        assert {info.space_id for info in searcher.collections()} == {NEW.space.space_id}
    assert house.rows("select distinct space_id from nao.vector_projection") == [
        (NEW.space.space_id,)
    ]
    assert PackStore(house.database).keys(OLD.space.space_id) == {}
    with pytest.raises(ConfigurationError, match="nothing to drop"):
        migration(house).drop(known(house))
    with pytest.raises(ConfigurationError, match="no generation to go back to"):
        generation_to_go_back_to(known(house))
    assert build(house, OLD).generation == 2


def test_the_generation_in_force_is_not_dropped(house: ContentHouse) -> None:
    current = known(house)
    with pytest.raises(ConfigurationError, match="in force"):
        migration(house).drop(current, current[0].name)


def test_a_second_generation_waits_for_the_first(house: ContentHouse) -> None:
    third = HashEmbedder("third").space.space_id
    build(house)
    with pytest.raises(ConfigurationError, match="being migrated to"):
        migration(house).target(known(house), HERE, third)
    switch(house, generation_to_switch_to(known(house)))
    with pytest.raises(ConfigurationError, match="drop it first"):
        migration(house).target(known(house), HERE, third)


def test_there_is_nothing_to_migrate_to_what_is_in_force(house: ContentHouse) -> None:
    with pytest.raises(ConfigurationError, match="nothing to migrate"):
        migration(house).target(known(house), HERE, OLD.space.space_id)
    assert build(house, OLD, rebuild=True).generation == 2


def test_another_chunking_alone_makes_a_generation_of_the_same_space(
    house: ContentHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UnitSource, "chunker_version", "unit-next")
    before = house.pointers(UNITS)
    built = build(house, OLD)
    assert built.generation == 2
    assert house.pointers(UNITS) == before
    switch(house, built)
    assert in_force(house) == (OLD.space.space_id, 2)
    assert house.pointers(UNITS).keys() == before.keys()
    assert all(house.pointers(UNITS)[k].content_digest != before[k].content_digest for k in before)
    assert house.audit().is_clean
    with house.writer() as store:
        assert house.publish_into(store).vector_writes == 0


def test_a_dry_run_counts_what_a_build_embeds_and_builds_nothing(house: ContentHouse) -> None:
    space_id = NEW.space.space_id
    target = migration(house).target(known(house), HERE, space_id)
    estimate = migration(house).estimate(target, embedder(house, space_id))
    assert (estimate.texts_to_embed, estimate.texts_cached) == (3, 0)
    assert estimate.seconds > 0
    assert (space_id, 1) not in states(house)
    build(house)
    after = migration(house).estimate(target, embedder(house, space_id))
    assert (after.texts_to_embed, after.texts_cached, after.seconds) == (0, 3, 0.0)


def test_a_nightly_of_the_old_model_is_refused_after_the_switch(house: ContentHouse) -> None:
    switch(house, build(house))
    with pytest.raises(SpaceMismatchError):
        house.publish()
    with pytest.raises(SpaceMismatchError):
        house.refresh_centroids()


def test_a_model_of_the_same_dimension_that_nobody_migrated_to_is_refused(
    house: ContentHouse,
) -> None:
    with (
        serving(house, HashEmbedder("third"), others=None) as service,
        pytest.raises(SpaceMismatchError),
    ):
        found_units(service)
    with pytest.raises(SpaceMismatchError):
        replace(house, inner=HashEmbedder("third")).publish()


def test_a_reader_without_the_new_model_says_so_after_the_switch(house: ContentHouse) -> None:
    def nowhere(space_id: str) -> QueryEmbedder:
        raise ModelUnavailableError(f"The model of {space_id} is not on this machine.")

    with serving(house, others=nowhere) as service:
        built = build(house)
        assert found_units(service) == {"u1", "u2"}
        switch(house, built)
        with pytest.raises(ModelUnavailableError, match=NEW.space.space_id):
            found_units(service)
        switch(house, generation_to_go_back_to(known(house)))
        assert found_units(service) == {"u1", "u2"}


def test_stored_packs_are_there_from_the_first_question_after_a_switch_and_after_a_rollback(
    house: ContentHouse,
) -> None:
    with serving(house) as service:

        def source_and_space() -> tuple[PackSource, str]:
            answer = service.answer("Nói về T/1", READER)
            return answer.source, answer.pack.built_from.space_id

        assert source_and_space() == (PackSource.STORED, OLD.space.space_id)
        switch(house, build(house))
        assert source_and_space() == (PackSource.STORED, NEW.space.space_id)
        switch(house, generation_to_go_back_to(known(house)))
        assert source_and_space() == (PackSource.STORED, OLD.space.space_id)


@contextmanager
def asked_all_the_time(
    house: ContentHouse,
) -> Iterator[list[tuple[frozenset[str], frozenset[str]]]]:
    """Questions from another thread while the body runs: the spaces that each asked, and what it found. Errors fail the test."""
    asked: list[tuple[frozenset[str], frozenset[str]]] = []
    failures: list[BaseException] = []
    done = threading.Event()

    class Watched:
        """Notes which collections one question was put to."""

        def __init__(self, inner: object) -> None:
            self.inner = inner
            self.spaces: set[str] = set()

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def search_batch(self, collection: str, queries: object) -> object:
            self.spaces.add(generation_of(collection)[0])
            return self.inner.search_batch(collection, queries)  # type: ignore[attr-defined]

    def ask() -> None:
        try:
            with (
                LeasedConnections(house.database, max_size=2) as connections,
                house.reader() as searcher,
            ):
                watched = Watched(searcher)
                service = RetrievalService(
                    connections=connections,
                    searcher=watched,  # pyright: ignore[reportArgumentType]
                    embedder=OLD,
                    signals=PostgresThreadSignals(connections),
                    other_embedders=MODELS.__getitem__,
                )
                while not done.is_set():
                    watched.spaces.clear()
                    found = found_units(service)
                    asked.append((frozenset(watched.spaces), frozenset(found)))
        except BaseException as error:  # noqa: BLE001  whatever it is, the test has to say it
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield asked
    finally:
        done.set()
        asking.join()
    assert failures == []


def test_readers_are_answered_throughout_and_never_from_two_spaces(house: ContentHouse) -> None:
    def wait(asked: list[tuple[frozenset[str], frozenset[str]]]) -> None:
        enough = len(asked) + 3
        while len(asked) < enough and any(t.name != "MainThread" for t in threading.enumerate()):
            threading.Event().wait(0.01)

    with asked_all_the_time(house) as asked:
        wait(asked)
        switch(house, build(house))
        wait(asked)
        switch(house, generation_to_go_back_to(known(house)))
        wait(asked)
        switch(house, generation_to_switch_to(known(house)))
        wait(asked)
        migration(house).drop(known(house))
        wait(asked)
    assert {len(spaces) for spaces, _ in asked} <= {1, 2}
    old, new = frozenset({OLD.space.space_id}), frozenset({NEW.space.space_id})
    # A question that met a drop was asked again from its beginning; every other one met one space.
    assert {spaces for spaces, _ in asked} <= {old, new, old | new}
    assert sum(spaces == old | new for spaces, _ in asked) <= 1
    assert {found for _, found in asked} == {frozenset({"u1", "u2"})}
    order = [spaces for spaces, _ in asked]
    assert order[0] == old
    assert order[-1] == new


def test_a_switch_that_was_killed_before_it_was_written_down_is_written_down_later(
    house: ContentHouse,
) -> None:
    built = build(house)
    with house.writer() as store:
        store.switch_aliases(built.names)
    assert states(house)[built.space_id, 1] is GenerationState.BUILT
    known(house)
    assert states(house) == {
        (OLD.space.space_id, 1): GenerationState.PREVIOUS,
        (NEW.space.space_id, 1): GenerationState.IN_FORCE,
    }


def test_figures_of_the_database_count_the_generation_in_force_alone(house: ContentHouse) -> None:
    def figures() -> list[object]:
        return [
            house.rows(
                "select collection, count(*) from nao.vector_projection_in_force group by 1 order by 1"
            ),
            house.rows("select count(*) from nao.context_pack_in_force"),
        ]

    before = figures()
    build(house)
    assert figures() == before


class Broken(BaseException):
    """What a command meets in the middle; nothing of ours catches it."""


@pytest.mark.parametrize("command", ["build", "switch", "rollback", "drop"])
def test_a_command_that_breaks_off_at_any_step_ends_as_undisturbed_when_it_is_given_again(
    house: ContentHouse, command: str
) -> None:
    """The steps are those that an undisturbed command takes. test_migration_survives_kill does it with SIGKILL."""
    if house.engine == "edge":
        pytest.skip("the steps are the same; a round of each takes minutes there")
    opposite = {"build": "drop", "switch": "rollback", "rollback": "switch", "drop": "build"}
    if command != "build":
        give(house, "build")
    if command == "rollback":
        give(house, "switch")
    steps: list[str] = []
    give(house, command, steps.append)
    undisturbed = outcome(house)
    for step in (s for s in dict.fromkeys(steps) if not s.startswith("content/")):
        give(house, opposite[command])

        def break_off(name: str, at: str = generic(step)) -> None:
            if generic(name) == at:
                raise Broken

        with pytest.raises(Broken):
            give(house, command, break_off)
        in_force(house)
        give_again(house, command)
        assert outcome(house) == undisturbed, step


def give(
    house: ContentHouse, command: str, on_step: Callable[[str], None] = lambda name: None
) -> None:
    steps, generations = migration(house, on_step), known(house)
    if command == "build":
        target = steps.target(generations, HERE, NEW.space.space_id)
        steps.build(target, embedder(house, NEW.space.space_id))
    elif command == "drop":
        steps.drop(generations)
    else:
        find = generation_to_switch_to if command == "switch" else generation_to_go_back_to
        target = find(generations)
        steps.switch(target, embedder(house, target.space_id), counting(house, target))


def give_again(house: ContentHouse, command: str) -> None:
    """As an operator does, who is told when there is nothing left to do."""
    with suppress(ConfigurationError):
        give(house, command)


def generic(step: str) -> str:
    """A step without the number of its generation, which grows with each round."""
    return step.rpartition("__g")[0] or step


def outcome(house: ContentHouse) -> list[object]:
    """Where things stand, without numbers of generations."""
    with house.reader() as searcher:
        collections = sorted((i.alias or "", i.space_id or "") for i in searcher.collections())
    return [
        in_force(house)[0],
        collections,
        house.rows(
            "select collection, space_id, count(*) from nao.vector_projection group by 1, 2 order by 1, 2"
        ),
        house.rows(
            "select space_id, count(*) from nao.thread_context_pack_cache group by 1 order by 1"
        ),
        house.rows(
            "select space_id, state from nao.vector_generation where state <> 'dropped' order by 1"
        ),
    ]
