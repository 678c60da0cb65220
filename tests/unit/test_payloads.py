"""The payload contract: what is refused, what a label reads as, what an id is made of, and that its page says the same."""

from __future__ import annotations

from pathlib import Path
from typing import get_args
from uuid import UUID

import pytest
from pydantic import BaseModel

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.errors import PayloadContractError
from threadhouse.retrieval.models import Collection, Flags, Json, TextSpan, Visibility
from threadhouse.retrieval.payloads import (
    CHUNK_FIELDS,
    PAYLOAD_MODELS,
    PAYLOAD_SCHEMA,
    CommonMetadata,
    chunk_payload,
    digest,
    digest_text,
    document_version_key,
    labels_from_metadata,
    point_id,
    validate_payload,
)
from threadhouse.stores.vectors import KEYWORD_FIELDS, CollectionManifest

PAGE = (Path(__file__).parents[2] / "docs" / "payload-contract.md").read_text(encoding="utf-8")
VERSION = "6d3f0a52-2a3b-4f0e-9a43-7a3f2f4be2b1"

COMMON: dict[str, Json] = {
    "title": "Điều 1",
    "tags": ["hoàn tiền"],
    "path": "quy-che.md",
    "language": "vi",
    "chunk_index": 0,
    "total_chunks": 1,
    "char_start": 0,
    "char_end": 9,
    "content_hash": digest_text("Nội dung."),
    "visibility": "public",
    "readiness": "published",
    "publication_state": "published",
    "risk_class": "low",
    "authority": "enacted",
    "lifecycle_stage": "law",
    "data_classification": "unclassified",
    "payload_schema": PAYLOAD_SCHEMA,
}
OWN: dict[Collection, dict[str, Json]] = {
    Collection.INFORMATION_UNITS: {
        "logical_unit_id": "unit",
        "unit_version_id": VERSION,
        "unit_kind": "law_unit",
        "canonical_address": "QC/1",
        "source_revision": 1,
    },
    Collection.PRODUCTION_DOCUMENTS: {"source_revision": 1},
    Collection.THREAD_CENTROIDS: {
        "thread_id": "thread",
        "lane": "customer",
        "unit_count": 1,
        "cohesion": 1.0,
    },
}


def payload(collection: Collection, **changes: Json) -> dict[str, Json]:
    return {"document_id": "document", "metadata": {**COMMON, **OWN[collection], **changes}}


# --- the contract -----------------------------------------------------------------------------


@pytest.mark.parametrize("collection", Collection)
def test_a_whole_payload_is_accepted(collection: Collection) -> None:
    validate_payload(collection, payload(collection))


@pytest.mark.parametrize(
    ("collection", "field"), [(c, field) for c in Collection for field in {**COMMON, **OWN[c]}]
)
def test_a_payload_that_lacks_a_field_is_refused_by_name(
    collection: Collection, field: str
) -> None:
    whole = payload(collection)
    metadata = whole["metadata"]
    assert isinstance(metadata, dict)
    del metadata[field]
    with pytest.raises(PayloadContractError, match=rf"{collection}: metadata\.{field}: "):
        validate_payload(collection, whole)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("visibility", "everybody"),
        ("visibility", ""),
        ("chunk_index", -1),
        ("total_chunks", 0),
        ("content_hash", "abc"),
        ("title", None),
        ("tags", "one"),
        ("unit_version_id", "not a version"),
        ("unit_kind", ""),
        ("source_revision", 0),
        ("surprise", "anything"),
    ],
)
def test_a_wrong_or_unknown_field_is_refused(field: str, value: Json) -> None:
    with pytest.raises(PayloadContractError, match=field):
        validate_payload(
            Collection.INFORMATION_UNITS, payload(Collection.INFORMATION_UNITS, **{field: value})
        )


@pytest.mark.parametrize("empty", [{}, {"document_id": "d"}, {"document_id": "d", "metadata": {}}])
def test_an_empty_payload_is_refused(empty: dict[str, Json]) -> None:
    with pytest.raises(PayloadContractError):
        validate_payload(Collection.INFORMATION_UNITS, empty)


def test_a_missing_flag_is_kept_as_missing() -> None:
    whole = payload(Collection.INFORMATION_UNITS, visibility=None)
    assert validate_payload(Collection.INFORMATION_UNITS, whole).metadata.visibility is None


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", "PUBLIC", "everybody", 1, True, ["public"], {}])
def test_a_label_outside_the_vocabulary_reads_as_missing(value: object) -> None:
    assert labels_from_metadata({**COMMON, "visibility": value}).flags.visibility is None


def test_a_payload_without_metadata_has_no_labels() -> None:
    assert labels_from_metadata({}) == Labels(Flags(), None, None)


def test_labels_are_read_as_they_were_written() -> None:
    assert labels_from_metadata(COMMON).flags.visibility is Visibility.PUBLIC


# --- identity ---------------------------------------------------------------------------------


def test_point_ids_never_change() -> None:
    """Another value here means that every stored point of every house is orphaned."""
    assert point_id(Collection.INFORMATION_UNITS, VERSION, 3) == UUID(
        "abed5eb0-6868-5f40-aa50-675f4a698983"
    )
    assert point_id(Collection.PRODUCTION_DOCUMENTS, document_version_key("d", 2), 0) == UUID(
        "d7a98f78-59cb-50c2-9702-d2aae402b060"
    )


def test_a_digest_tells_values_apart_that_look_alike() -> None:
    values: list[Json] = [None, "", "null", 0, False, [], {}, [None], {"": None}, "0", 0.5]
    assert len({digest(value) for value in values}) == len(values)


def test_an_owner_without_metadata_gives_no_chunk() -> None:
    with pytest.raises(PayloadContractError):
        chunk_payload({"document_id": "d"}, TextSpan("x", 0, 1), 0, 1)


# --- the page ---------------------------------------------------------------------------------


def documented() -> dict[str, dict[str, list[str]]]:
    """Rows of the field tables by heading and field."""
    sections: dict[str, dict[str, list[str]]] = {}
    for section in PAGE.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in body.splitlines()
            if line.startswith("| `")
        ]
        sections[heading] = {cells[0].strip("`"): cells[1:] for cells in rows if len(cells) == 5}
    return {heading: rows for heading, rows in sections.items() if rows}


def fields_of(model: type[BaseModel]) -> set[str]:
    return {f"metadata.{name}" for name in model.model_fields}


def test_the_page_lists_exactly_the_fields_of_the_contract() -> None:
    expected = {"Every collection": {"document_id"} | fields_of(CommonMetadata)}
    for collection, model in PAYLOAD_MODELS.items():
        metadata = model.model_fields["metadata"].annotation
        assert isinstance(metadata, type)
        assert issubclass(metadata, BaseModel)
        expected[f"`{collection}` also has"] = fields_of(metadata) - fields_of(CommonMetadata)
    assert {heading: set(rows) for heading, rows in documented().items()} == expected


def test_the_page_says_which_fields_are_filtered() -> None:
    filtered = {
        field for rows in documented().values() for field, cells in rows.items() if cells[1]
    }
    assert filtered == set(KEYWORD_FIELDS)


def test_the_page_says_which_fields_may_be_null() -> None:
    nullable = {
        field.removeprefix("metadata.")
        for field, cells in documented()["Every collection"].items()
        if "or null" in cells[0]
    }
    assert nullable == {
        name
        for name, info in CommonMetadata.model_fields.items()
        if type(None) in get_args(info.annotation)
    }


def test_the_page_says_which_fields_come_from_the_chunker() -> None:
    chunker = {
        field.removeprefix("metadata.")
        for field, cells in documented()["Every collection"].items()
        if cells[3] == "chunker"
    }
    assert chunker == CHUNK_FIELDS


def test_the_page_and_new_collections_carry_the_schema_in_force() -> None:
    assert f"version of this contract, now {PAYLOAD_SCHEMA} |" in PAGE
    assert CollectionManifest.__dataclass_fields__["payload_schema"].default == PAYLOAD_SCHEMA
