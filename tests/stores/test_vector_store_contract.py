"""What every vector store does, on every backend: the embedded engine, the client's local mode, and a server.

The server takes part when ``QDRANT_URL`` is set. Belongs here: behaviour a caller can rely on whatever is configured.
Does not belong here: processes, locks and published copies (``test_edge_reader_and_writer``).
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.single_searches import search_bm25, search_dense
from threadhouse.retrieval.errors import (
    CollectionUnknownError,
    ConfigurationError,
    DimensionMismatchError,
    EmbedderError,
    PayloadContractError,
    SpaceMismatchError,
    StoreUnreachableError,
)
from threadhouse.retrieval.models import (
    AllOf,
    Json,
    SparseVector,
    StoredPoint,
    VectorPoint,
    Vectors,
    VectorSpace,
)
from threadhouse.stores.vectors import MAX_BATCH_BYTES, batches_by_bytes, open_writer, physical_name
from threadhouse.stores.vectors_client import ClientVectorStore, open_client_store
from threadhouse.stores.vectors_edge import EdgeScratch, EdgeWriter

DIM = 8
EVERYTHING = AllOf()


def make_space(name: str = "tiny", dim: int = DIM) -> VectorSpace:
    return VectorSpace(
        name=name,
        model=f"test/{name}",
        weights_sha256="0" * 64,
        tokenizer_sha256="1" * 64,
        dim=dim,
        max_tokens=16,
        pooling="mean",
        query_prefix="query: ",
        passage_prefix="passage: ",
        space_id=f"{name}-{dim}-abc123",
    )


SPACE = make_space()


Store = EdgeWriter | ClientVectorStore


@pytest.fixture(params=["edge", "edge-scratch", "client-local", "server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "edge":
        with EdgeWriter(tmp_path, lock_timeout_s=5) as writer:
            yield writer
        return
    if request.param == "edge-scratch":
        with EdgeScratch(tmp_path) as scratch:
            yield scratch
        return
    if request.param == "client-local":
        from qdrant_client import QdrantClient

        client = QdrantClient(":memory:")
        with ClientVectorStore(client, address="memory", has_payload_indexes=False) as local:
            yield local
        return
    url = os.environ.get("QDRANT_URL")
    if not url:
        pytest.skip("QDRANT_URL is not set, so there is no server to test")
    with open_client_store(url=url, api_key=os.environ.get("QDRANT_API_KEY")) as server:
        before = {info.physical for info in server.collections()}
        yield server
        for info in server.collections():
            if info.physical not in before:
                server.drop_collection(info.physical)


@pytest.fixture
def alias() -> str:
    # A server is shared with whatever else is in it, so every test has names of its own.
    return f"test_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def collection(store: Store, alias: str) -> str:
    store.ensure_collection(alias, SPACE)
    return alias


def point_id(number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"point-{number}")


def make_point(
    number: int,
    payload: dict[str, Json] | None = None,
    *,
    accented: SparseVector | None = None,
    folded: SparseVector | None = None,
    dense: Sequence[float] | None = None,
) -> VectorPoint:
    row = np.random.default_rng(number).normal(size=DIM) if dense is None else np.asarray(dense)
    return VectorPoint(
        point_id=point_id(number),
        dense=(row / np.linalg.norm(row)).astype(np.float32),
        bm25_accented=accented or SparseVector(),
        bm25_folded=folded or SparseVector(),
        payload={"document_id": f"d{number}"} if payload is None else payload,
    )


def make_query(seed: int, space_id: str = SPACE.space_id, role: str = "query") -> Vectors:
    row = np.random.default_rng(seed).normal(size=(1, DIM)).astype(np.float32)
    unit = (row / np.linalg.norm(row)).astype(np.float32)
    return Vectors(space_id, role, unit, np.zeros(1, dtype=np.bool_))


def assert_vector_of(stored: StoredPoint, point: VectorPoint) -> None:
    """Tolerance: the engine normalises again, in float32."""
    assert stored.dense is not None
    np.testing.assert_allclose(stored.dense, point.dense, atol=1e-6)


# --- points -----------------------------------------------------------------------------------


def test_as_many_points_are_stored_as_were_given(store: Store, collection: str) -> None:
    written = store.upsert(collection, SPACE.space_id, (make_point(n) for n in range(700)))
    assert (written, store.count(collection)) == (700, 700)


def test_a_repeated_upsert_changes_nothing(store: Store, collection: str) -> None:
    points = [make_point(n) for n in range(20)]
    store.upsert(collection, SPACE.space_id, points)
    store.upsert(collection, SPACE.space_id, points)
    assert {p.point_id: p.payload for p in store.scroll(collection)} == {
        p.point_id: p.payload for p in points
    }


def test_an_upsert_replaces_payload_and_vector(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1)])
    changed = make_point(1, {"document_id": "new"}, dense=[1, 0, 0, 0, 0, 0, 0, 0])
    store.upsert(collection, SPACE.space_id, [changed])
    (stored,) = store.retrieve(collection, [changed.point_id], with_vectors=True)
    assert stored.payload == {"document_id": "new"}
    assert_vector_of(stored, changed)


def test_retrieve_returns_only_points_that_exist(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1), make_point(2)])
    found = store.retrieve(collection, [point_id(2), point_id(3), point_id(2)])
    assert [(p.point_id, p.dense) for p in found] == [(point_id(2), None)]


def test_scroll_pages_through_every_point_once(store: Store, collection: str) -> None:
    points = [make_point(n) for n in range(1_100)]
    store.upsert(collection, SPACE.space_id, points)
    scrolled = [p.point_id for p in store.scroll(collection)]
    assert sorted(scrolled) == sorted(p.point_id for p in points)


def test_scroll_brings_vectors_of_length_one_when_asked(store: Store, collection: str) -> None:
    points = {point_id(n): make_point(n) for n in range(5)}
    store.upsert(collection, SPACE.space_id, points.values())
    for stored in store.scroll(collection, with_vectors=True):
        assert_vector_of(stored, points[stored.point_id])


def test_points_can_be_deleted_while_they_are_scrolled(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(n) for n in range(600)])
    for stored in store.scroll(collection):
        store.delete(collection, [stored.point_id])
    assert store.count(collection) == 0


def test_delete_removes_exactly_the_named_points(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(n) for n in range(10)])
    deleted = store.delete(collection, [point_id(3), point_id(4), point_id(99)])
    left = {p.point_id for p in store.scroll(collection)}
    assert (deleted, left) == (2, {point_id(n) for n in range(10) if n not in {3, 4}})


def test_overwriting_a_payload_replaces_all_of_it_and_keeps_the_vectors(
    store: Store, collection: str
) -> None:
    term = SparseVector((7,), (1.0,))
    before = make_point(1, {"document_id": "d", "metadata": {"title": "old"}}, accented=term)
    store.upsert(collection, SPACE.space_id, [before])
    payload: dict[str, Json] = {"document_id": "d", "metadata": {"visibility": "public"}}
    written = store.overwrite_payloads(
        collection, [(before.point_id, payload), (point_id(404), payload)]
    )
    (stored,) = store.retrieve(collection, [before.point_id], with_vectors=True)
    assert (written, stored.payload) == (1, payload)
    assert_vector_of(stored, before)
    assert len(search_bm25(store, collection, "bm25_accented", term, EVERYTHING, 5)) == 1


def test_an_overwritten_payload_is_filtered_by_its_new_value(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1, {"metadata": {"lane": "customer"}})])
    store.overwrite_payloads(collection, [(point_id(1), {"metadata": {"lane": "employee"}})])
    found = [
        store.count(collection, AllOf((("metadata.lane", (lane,)),)))
        for lane in ("customer", "employee")
    ]
    assert found == [0, 1]


# Not promised: whole numbers beyond 2^53, on which JSON readers disagree, and the last bit of a full double, which the
# embedded engine may round (7.979017647579255e-305 comes back ending in 4). Four decimals are exact everywhere.
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.integers(-(10**9), 10**9).map(lambda n: n / 10_000)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=json_values)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_payload_comes_back_as_it_went_in(store: Store, collection: str, value: Json) -> None:
    """One collection serves all examples: each overwrites the same point."""
    payload: dict[str, Json] = {"document_id": "d", "metadata": {"extra": value}}
    store.upsert(collection, SPACE.space_id, [make_point(1, payload)])
    (stored,) = store.retrieve(collection, [point_id(1)])
    assert stored.payload == payload


# --- what is refused --------------------------------------------------------------------------


def test_vectors_of_another_space_are_not_written(store: Store, collection: str) -> None:
    with pytest.raises(SpaceMismatchError, match=r"tiny-8-abc123, not other-8-abc123"):
        store.upsert(collection, make_space("other").space_id, [make_point(1)])
    assert store.count(collection) == 0


def test_vectors_of_another_space_are_not_searched_with(store: Store, collection: str) -> None:
    other = make_query(1, make_space("other").space_id)
    with pytest.raises(SpaceMismatchError):
        search_dense(store, collection, other, EVERYTHING, 5)


def test_a_passage_vector_is_not_searched_with(store: Store, collection: str) -> None:
    with pytest.raises(SpaceMismatchError, match="embed_query"):
        search_dense(store, collection, make_query(1, role="passage"), EVERYTHING, 5)


def test_an_alias_that_holds_another_space_is_not_reused(store: Store, collection: str) -> None:
    with pytest.raises(SpaceMismatchError):
        store.ensure_collection(collection, make_space("other"))


def test_a_vector_of_another_dimension_is_refused(store: Store, collection: str) -> None:
    point = make_point(1)
    short = VectorPoint(point.point_id, point.dense[:4], SparseVector(), SparseVector(), {})
    with pytest.raises(DimensionMismatchError):
        store.upsert(collection, SPACE.space_id, [short])


@pytest.mark.parametrize("row", [np.zeros(DIM), np.full(DIM, np.nan)], ids=["zero", "nan"])
def test_a_vector_without_direction_is_refused(
    store: Store, collection: str, row: np.ndarray
) -> None:
    bad = VectorPoint(point_id(1), row.astype(np.float32), SparseVector(), SparseVector(), {})
    with pytest.raises(EmbedderError):
        store.upsert(collection, SPACE.space_id, [bad])


@pytest.mark.parametrize(
    "payload",
    [
        {"score": float("nan")},
        {"title": "\ud800"},
        {"metadata": {"visibility": True}},
        {"metadata": {"thread_id": ["t1", 2]}},
    ],
    ids=["nan", "lone surrogate", "boolean flag", "number among texts"],
)
def test_a_payload_that_would_not_come_back_or_match_is_refused(
    store: Store, collection: str, payload: dict[str, Json]
) -> None:
    with pytest.raises(PayloadContractError):
        store.upsert(collection, SPACE.space_id, [make_point(1, payload)])


@pytest.mark.parametrize(
    "sparse",
    [
        SparseVector((2, 1), (1.0, 1.0)),
        SparseVector((1, 1), (1.0, 1.0)),
        SparseVector((1,), (0.0,)),
        SparseVector((1,), ()),
        SparseVector((2**32,), (1.0,)),
    ],
    ids=["descending", "repeated", "weightless", "uneven", "beyond 32 bits"],
)
def test_a_sparse_vector_out_of_form_is_refused(
    store: Store, collection: str, sparse: SparseVector
) -> None:
    with pytest.raises(PayloadContractError):
        store.upsert(collection, SPACE.space_id, [make_point(1, accented=sparse)])


def test_an_id_that_comes_twice_in_one_write_is_refused(store: Store, collection: str) -> None:
    with pytest.raises(PayloadContractError, match="twice"):
        store.upsert(collection, SPACE.space_id, [make_point(1), make_point(1)])


def test_a_point_larger_than_a_batch_is_refused(store: Store, collection: str) -> None:
    with pytest.raises(PayloadContractError, match="bytes"):
        store.upsert(collection, SPACE.space_id, [make_point(1, {"title": "x" * MAX_BATCH_BYTES})])


@pytest.mark.parametrize("call", ["count", "scroll", "publish", "drop_collection", "resolve"])
def test_an_unknown_collection_is_named(store: Store, call: str) -> None:
    with pytest.raises(CollectionUnknownError, match="no_such_collection"):
        getattr(store, call)("no_such_collection")


# --- collections ------------------------------------------------------------------------------


def test_the_physical_name_says_space_and_generation(
    store: Store, alias: str, collection: str
) -> None:
    assert store.resolve(collection) == f"{alias}__tiny-8-abc123__g1"


def test_ensuring_a_collection_again_keeps_its_points(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1)])
    assert store.ensure_collection(collection, SPACE) == store.resolve(collection)
    assert store.count(collection) == 1


def test_a_new_space_is_built_beside_the_old_one_and_switched_to(
    store: Store, alias: str, collection: str
) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1)])
    other = make_space("other")
    physical = store.create_collection(alias, other)
    store.upsert(physical, other.space_id, [make_point(1), make_point(2)])
    assert store.count(alias) == 1
    store.switch_aliases({alias: physical})
    assert (store.resolve(alias), store.count(alias)) == (physical, 2)


def test_aliases_are_switched_together_or_not_at_all(store: Store, alias: str) -> None:
    both = (alias, f"{alias}_too")
    first = {name: store.ensure_collection(name, SPACE) for name in both}
    second = {name: store.create_collection(name, SPACE, 2) for name in both}
    with pytest.raises(CollectionUnknownError):
        store.switch_aliases(second | {"third": "nowhere__tiny-8-abc123__g1"})
    assert {name: store.aliases()[name] for name in both} == first
    store.switch_aliases(second)
    assert {name: store.aliases()[name] for name in both} == second


def test_ensuring_follows_the_alias_to_its_generation(store: Store, collection: str) -> None:
    second = store.create_collection(collection, SPACE, 2)
    store.switch_aliases({collection: second})
    assert store.ensure_collection(collection, SPACE) == second


def test_collections_are_listed_with_alias_space_and_count(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1)])
    idle = store.create_collection(collection, SPACE, 2)
    listed = {
        info.physical: (info.alias, info.space_id, info.point_count) for info in store.collections()
    }
    assert listed[store.resolve(collection)] == (collection, SPACE.space_id, 1)
    assert listed[idle] == (None, SPACE.space_id, 0)


def test_a_dropped_collection_is_unknown_and_can_be_made_again(
    store: Store, alias: str, collection: str
) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1)])
    store.drop_collection(collection)
    with pytest.raises(CollectionUnknownError):
        store.count(collection)
    store.ensure_collection(alias, SPACE)
    assert store.count(collection) == 0


# --- filters ----------------------------------------------------------------------------------


def test_a_missing_field_never_matches(store: Store, collection: str) -> None:
    store.upsert(
        collection,
        SPACE.space_id,
        [
            make_point(1, {"metadata": {"visibility": "public"}}),
            make_point(2, {"metadata": {"visibility": None}}),
            make_point(3, {"metadata": {}}),
            make_point(4, {}),
        ],
    )
    where = AllOf((("metadata.visibility", ("public", "partner", "", "null", "None")),))
    assert [p.point_id for p in store.scroll(collection, where)] == [point_id(1)]


def test_an_empty_allow_list_matches_nothing_anywhere(store: Store, collection: str) -> None:
    term = SparseVector((1,), (1.0,))
    store.upsert(collection, SPACE.space_id, [make_point(1, accented=term)])
    nothing = AllOf((("document_id", ("d1",)), ("metadata.visibility", ())))
    assert [
        store.count(collection, nothing),
        list(store.scroll(collection, nothing)),
        search_dense(store, collection, make_query(1), nothing, 5),
        search_bm25(store, collection, "bm25_accented", term, nothing, 5),
    ] == [0, [], [], []]


WORDS = ("public", "partner", "internal", "Public", "", "công khai", "true", "1")
FIELDS = ("document_id", "metadata.visibility", "metadata.readiness", "metadata.thread_id")


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Json]:
    texts: list[Json] = list(WORDS)
    one = st.sampled_from(texts)
    value: st.SearchStrategy[Json] = st.none() | one | st.lists(one, max_size=3)
    metadata: dict[str, Json] = draw(
        st.dictionaries(st.sampled_from(["visibility", "readiness", "thread_id"]), value)
    )
    payload: dict[str, Json] = {} if draw(st.booleans()) else {"document_id": draw(one)}
    if draw(st.booleans()):
        payload["metadata"] = draw(st.sampled_from([None, metadata]))
    return payload


wheres = st.lists(
    st.tuples(st.sampled_from(FIELDS), st.lists(st.sampled_from(WORDS), max_size=4).map(tuple)),
    max_size=3,
).map(lambda pairs: AllOf(tuple(pairs)))


def matches(payload: dict[str, Json], where: AllOf) -> bool:
    """The oracle: plain Python over the payload."""

    def values(field: str) -> list[Json]:
        here: Json = payload
        for step in field.split("."):
            here = here.get(step) if isinstance(here, dict) else None
        return here if isinstance(here, list) else [here]

    return all(any(v in allowed for v in values(field)) for field, allowed in where.allowed)


@given(given_payloads=st.lists(payloads(), min_size=1, max_size=8), where=wheres)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_filters_agree_with_plain_python(
    store: Store, collection: str, given_payloads: list[dict[str, Json]], where: AllOf
) -> None:
    store.delete(collection, [point_id(n) for n in range(8)])
    points = [make_point(n, payload) for n, payload in enumerate(given_payloads)]
    store.upsert(collection, SPACE.space_id, points)
    expected = sorted(p.point_id for p in points if matches(p.payload, where))
    assert {
        "scroll": sorted(p.point_id for p in store.scroll(collection, where)),
        "count": store.count(collection, where),
        "search": sorted(
            p.point_id for p in search_dense(store, collection, make_query(1), where, 50)
        ),
    } == {"scroll": expected, "count": len(expected), "search": expected}


def test_a_field_that_is_no_path_is_refused(store: Store, collection: str) -> None:
    with pytest.raises(PayloadContractError, match="payload path"):
        store.count(collection, AllOf((("metadata[].visibility", ("public",)),)))


# --- search -----------------------------------------------------------------------------------


def test_dense_search_orders_by_cosine(store: Store, collection: str) -> None:
    points = [make_point(n, {"document_id": "even" if n % 2 == 0 else "odd"}) for n in range(200)]
    store.upsert(collection, SPACE.space_id, points)
    query = make_query(5)
    odd = [p for p in points if p.payload["document_id"] == "odd"]
    cosines = {p.point_id: float(p.dense @ query.data[0]) for p in odd}
    best = sorted(cosines, key=lambda i: -cosines[i])[:20]
    hits = search_dense(store, collection, query, AllOf((("document_id", ("odd",)),)), 20)
    assert [hit.point_id for hit in hits] == best
    np.testing.assert_allclose([h.score for h in hits], [cosines[i] for i in best], atol=1e-5)


def bm25_oracle(
    points: Sequence[VectorPoint], query: SparseVector, where: AllOf
) -> dict[uuid.UUID, float]:
    """Sum over shared terms of query weight * IDF * point weight, IDF over what the filter lets through.

    IDF is ln(1 + (N - n + 0.5) / (n + 0.5)), with N and n counted among matching points that have the vector.
    """
    seen = [p for p in points if matches(p.payload, where) and p.bm25_accented.indices]
    frequency = {t: sum(t in p.bm25_accented.indices for p in seen) for t in query.indices}
    idf = {t: math.log(1 + (len(seen) - n + 0.5) / (n + 0.5)) for t, n in frequency.items()}
    scores: dict[uuid.UUID, float] = {}
    for p in seen:
        weights = dict(zip(p.bm25_accented.indices, p.bm25_accented.values, strict=True))
        terms = [
            w * idf[t] * weights[t]
            for t, w in zip(query.indices, query.values, strict=True)
            if t in weights
        ]
        if terms:
            scores[p.point_id] = sum(terms)
    return scores


def make_term_points(count: int, seed: int) -> list[VectorPoint]:
    random = np.random.default_rng(seed)
    points: list[VectorPoint] = []
    for n in range(count):
        terms = sorted(set((random.zipf(1.5, size=6) % 12).tolist())) if n % 7 else []
        weights = random.uniform(0.2, 2.0, size=len(terms)).astype(np.float32)
        sparse = SparseVector(tuple(terms), tuple(float(w) for w in weights))
        lane = ("customer", "partner", "employee")[n % 3]
        points.append(make_point(n, {"metadata": {"lane": lane}}, accented=sparse))
    return points


@pytest.mark.parametrize("lanes", [(), ("customer",), ("customer", "partner")])
def test_bm25_search_equals_idf_times_weight(
    store: Store, collection: str, lanes: tuple[str, ...]
) -> None:
    """Tolerance 1e-4 relative: the engines sum in float32, the oracle in float64."""
    points = make_term_points(120, seed=3)
    store.upsert(collection, SPACE.space_id, points)
    where = AllOf((("metadata.lane", lanes),)) if lanes else EVERYTHING
    query = SparseVector((1, 2, 5, 11), (1.0, 1.0, 0.5, 2.0))
    hits = search_bm25(store, collection, "bm25_accented", query, where, 200)
    expected = bm25_oracle(points, query, where)
    assert {h.point_id: h.score for h in hits} == pytest.approx(expected, rel=1e-4)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_bm25_scores_do_not_remember_deleted_points(store: Store, collection: str) -> None:
    points = make_term_points(120, seed=4)
    store.upsert(collection, SPACE.space_id, points)
    store.delete(collection, [p.point_id for p in points[60:]])
    query = SparseVector((1, 2, 5), (1.0, 1.0, 1.0))
    hits = search_bm25(store, collection, "bm25_accented", query, EVERYTHING, 200)
    expected = bm25_oracle(points[:60], query, EVERYTHING)
    assert {h.point_id: h.score for h in hits} == pytest.approx(expected, rel=1e-4)


def test_hidden_points_do_not_move_the_scores_of_visible_ones(
    store: Store, collection: str
) -> None:
    """Otherwise a score would tell a customer how often a word occurs in what they may not see."""
    term = SparseVector((7,), (1.0,))
    customer = AllOf((("metadata.lane", ("customer",)),))
    store.upsert(
        collection,
        SPACE.space_id,
        [make_point(n, {"metadata": {"lane": "customer"}}, accented=term) for n in range(3)],
    )
    before = [h.score for h in search_bm25(store, collection, "bm25_accented", term, customer, 9)]
    store.upsert(
        collection,
        SPACE.space_id,
        [make_point(n, {"metadata": {"lane": "employee"}}, accented=term) for n in range(10, 60)],
    )
    after = [h.score for h in search_bm25(store, collection, "bm25_accented", term, customer, 9)]
    assert after == pytest.approx(before)


def test_the_two_bm25_vectors_are_searched_apart(store: Store, collection: str) -> None:
    accented, folded = SparseVector((1,), (1.0,)), SparseVector((2,), (1.0,))
    store.upsert(collection, SPACE.space_id, [make_point(1, accented=accented, folded=folded)])
    found = {
        (name, term.indices): len(search_bm25(store, collection, name, term, EVERYTHING, 5))
        for name in ("bm25_accented", "bm25_folded")
        for term in (accented, folded)
    }
    assert found == {
        ("bm25_accented", (1,)): 1,
        ("bm25_accented", (2,)): 0,
        ("bm25_folded", (1,)): 0,
        ("bm25_folded", (2,)): 1,
    }


def test_a_query_without_terms_finds_nothing(store: Store, collection: str) -> None:
    store.upsert(collection, SPACE.space_id, [make_point(1, accented=SparseVector((1,), (1.0,)))])
    assert search_bm25(store, collection, "bm25_accented", SparseVector(), EVERYTHING, 5) == []


def test_an_unknown_sparse_vector_is_refused(store: Store, collection: str) -> None:
    with pytest.raises(SpaceMismatchError, match="bm25_accented"):
        search_bm25(store, collection, "bm25", SparseVector((1,), (1.0,)), EVERYTHING, 5)


# --- without a store --------------------------------------------------------------------------


@given(st.lists(st.integers(0, 50)))
def test_batches_keep_order_and_bound(sizes: list[int]) -> None:
    batches = list(batches_by_bytes(sizes, lambda size: size, max_bytes=50))
    assert [size for batch in batches for size in batch] == sizes
    assert all(batch and sum(batch) <= 50 for batch in batches)


@pytest.mark.parametrize("part", ["", "a/b", "..", "a__b", "../x", "a b"])
def test_a_part_that_is_no_plain_name_cannot_name_a_collection(part: str) -> None:
    with pytest.raises(ConfigurationError):
        physical_name(part, "space-8-abc", 1)


def test_a_server_that_is_down_is_named(tmp_path: Path) -> None:
    # Port 1 of this machine: nothing listens there, and the refusal comes at once.
    store = open_writer(home=tmp_path, url="http://127.0.0.1:1", request_timeout_s=2)
    with pytest.raises(StoreUnreachableError, match=r"127\.0\.0\.1:1"):
        store.collections()
    store.close()
