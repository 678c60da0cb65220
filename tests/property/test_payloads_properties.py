"""Payloads: what is put together comes apart again, and equal values have equal digests."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.models import (
    Authority,
    Collection,
    DataClassification,
    Flags,
    Json,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    TextSpan,
    Visibility,
)
from threadhouse.retrieval.payloads import (
    PAYLOAD_SCHEMA,
    chunk_payload,
    digest,
    label_fields,
    labels_from_metadata,
    owner_part,
    point_id,
    validate_payload,
)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
labels = st.builds(
    Labels,
    flags=st.builds(
        Flags,
        visibility=st.none() | st.sampled_from(Visibility),
        readiness=st.none() | st.sampled_from(Readiness),
        publication_state=st.none() | st.sampled_from(PublicationState),
        risk_class=st.none() | st.sampled_from(RiskClass),
        authority=st.none() | st.sampled_from(Authority),
    ),
    lifecycle_stage=st.none() | st.sampled_from(LifecycleStage),
    data_classification=st.none() | st.sampled_from(DataClassification),
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def owner_payloads(draw: st.DrawFn) -> dict[str, Json]:
    """What the chunks of a unit share, as the projection builds it."""
    return {
        "document_id": draw(names),
        "metadata": {
            "title": draw(texts),
            "tags": list(draw(st.lists(texts, max_size=3))),
            "path": draw(texts),
            "language": "vi",
            **label_fields(draw(labels)),
            "payload_schema": PAYLOAD_SCHEMA,
            "logical_unit_id": draw(names),
            "unit_version_id": str(draw(st.uuids())),
            "unit_kind": draw(names),
            "canonical_address": draw(names),
            "source_revision": draw(st.integers(1, 1000)),
        },
    }


@st.composite
def spans(draw: st.DrawFn) -> TextSpan:
    text, start = draw(texts), draw(st.integers(0, 1000))
    return TextSpan(text, start, start + len(text))


@given(owner_payloads(), spans(), st.integers(0, 50))
def test_what_is_built_is_valid_and_comes_back_from_json_unchanged(
    owner: dict[str, Json], span: TextSpan, index: int
) -> None:
    built = chunk_payload(owner, span, index, index + 1)
    stored = json.loads(json.dumps(built))
    assert stored == built
    validated = validate_payload(Collection.INFORMATION_UNITS, stored)
    assert validated.model_dump(mode="json") == built


@given(owner_payloads(), spans(), st.integers(0, 50))
def test_the_part_of_the_owner_is_taken_out_of_a_chunk_as_it_was_put_in(
    owner: dict[str, Json], span: TextSpan, index: int
) -> None:
    assert owner_part(chunk_payload(owner, span, index, index + 1)) == owner


@given(labels)
def test_labels_come_back_from_a_payload_as_they_went_in(given_labels: Labels) -> None:
    stored = json.loads(json.dumps(label_fields(given_labels)))
    assert labels_from_metadata(stored) == given_labels


@given(st.dictionaries(texts, values, max_size=5), st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order_of_keys(
    value: dict[str, Json], random: Random
) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert digest({key: value[key] for key in keys}) == digest(value)


@given(st.sampled_from(Collection), names, st.integers(0, 9), names, st.integers(0, 9))
def test_two_chunks_share_an_id_only_when_they_are_one(
    collection: Collection, version: str, index: int, other_version: str, other_index: int
) -> None:
    same = (version, index) == (other_version, other_index)
    assert (
        point_id(collection, version, index) == point_id(collection, other_version, other_index)
    ) == same


@given(st.sampled_from(Collection), st.sampled_from(Collection), names)
def test_no_two_collections_share_an_id(one: Collection, other: Collection, version: str) -> None:
    assert (point_id(one, version, 0) == point_id(other, version, 0)) == (one == other)
