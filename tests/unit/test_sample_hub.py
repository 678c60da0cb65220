"""Facts of ``examples/hub`` that its README promises, read from the files alone.

Belongs here: what the shipped sample must contain. Does not belong here: how it is loaded; this reader of the
format is separate from the loader on purpose, so that one can be held against the other.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.attrs.parse import parse as parse_attributes

from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    HealthStatus,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)

HUB = Path(__file__).parents[2] / "examples" / "hub"
VOCABULARIES: dict[str, type[StrEnum]] = {
    "visibility": Visibility,
    "readiness": Readiness,
    "publication_state": PublicationState,
    "risk_class": RiskClass,
    "authority": Authority,
    "lifecycle_stage": LifecycleStage,
    "data_classification": DataClassification,
}
EVENT_TYPES = {
    "query",
    "pack_delivered",
    "sufficiency_verdict",
    "wrong_thread",
    "noisy_context",
    "missing_thread_confirmed",
    "extra_search",
    "suggestion",
    "rejection",
    "citation_check",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class HubUnit:
    """One unit as the format of the README defines it, with the values it ends up with."""

    address: str
    title: str
    body: str
    language: str
    document_id: str
    values: dict[str, str]


def split_front_matter(path: Path) -> tuple[Row, str]:
    _, header, body = path.read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(header), body


def parse_units(path: Path) -> list[HubUnit]:
    header, body = split_front_matter(path)
    if header.get("units") == "none":
        return []
    base = {name: header[name] for name in (*VOCABULARIES, "unit_kind")}
    lines = body.splitlines()
    tokens = MarkdownIt("commonmark").parse(body)
    starts: list[tuple[int, int, str, str, dict[str, str]]] = []
    section, subsection, parent = 0, 0, dict(base)
    preamble_line = 0
    for token, inline in pairwise(tokens):
        if token.type != "heading_open" or token.level or token.map is None:
            continue
        if token.tag == "h1":
            preamble_line = token.map[1]
        if token.tag not in {"h2", "h3"}:
            continue
        title, own = inline.content, {}
        if match := re.search(r"\s*(\{[^{}]*\})\s*$", title):
            own = dict(parse_attributes(match[1])[1])
            title = title[: match.start()]
        if token.tag == "h2":
            section, subsection, inherited, number = (
                section + 1,
                0,
                base,
                str(section + 1),
            )
        else:
            subsection += 1
            inherited, number = parent, f"{section}.{subsection}"
        suffix = own.pop("id", number)
        values = {**inherited, **own}
        if token.tag == "h2":
            parent = values
        starts.append((token.map[0], token.map[1], suffix, title, values))
    ends = [start[0] for start in starts[1:]] + [len(lines)]
    first = starts[0][0] if starts else len(lines)
    cut = [(preamble_line, first, "0", header["title"], base)]
    cut += [(s[1], end, *s[2:]) for s, end in zip(starts, ends, strict=True)]
    return [
        HubUnit(
            address=f"{header['address_prefix']}/{suffix}",
            title=title,
            body=text,
            language=header["language"],
            document_id=header["document_id"],
            values=values,
        )
        for begin, end, suffix, title, values in cut
        if (text := "\n".join(lines[begin:end]).strip())
    ]


@cache
def documents() -> dict[str, Row]:
    headers = [split_front_matter(path)[0] for path in sorted(HUB.glob("documents/*.md"))]
    return {header["document_id"]: header for header in headers}


@cache
def units() -> dict[str, HubUnit]:
    found = [unit for path in sorted(HUB.glob("documents/*.md")) for unit in parse_units(path)]
    assert len({unit.address for unit in found}) == len(found), "two units share an address"
    return {unit.address: unit for unit in found}


@cache
def rows(table: str) -> list[Row]:
    text = (HUB / f"{table}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def threads() -> dict[str, Row]:
    return {row["thread_id"]: row for row in rows("tables/semantic_thread")}


def local_time(instant: str) -> datetime:
    moment = datetime.fromisoformat(instant)
    assert moment.utcoffset() == timedelta(0), "instants of the hub are written in UTC"
    return moment.astimezone(ZoneInfo("Asia/Ho_Chi_Minh"))


def is_visible(unit: HubUnit, lane: str) -> bool:
    """The default policy for a reader without any extra permission, spelt out once more by hand."""
    flags = unit.values
    visibilities, readinesses, publications = {
        "customer": ({"public"}, {"published"}, {"published"}),
        "partner": ({"public", "partner"}, {"published"}, {"published"}),
        "employee": (
            {"public", "partner", "employee"},
            {"approved", "published"},
            {"unpublished", "published"},
        ),
        "ai_agent": (
            {"public", "partner", "employee", "internal"},
            {"approved", "published"},
            {"unpublished", "published"},
        ),
    }[lane]
    hidden_stages = {"employee": {"code", "incident"}, "ai_agent": {"incident"}}.get(lane, set())
    return (
        flags["visibility"] in visibilities
        and flags["readiness"] in readinesses
        and flags["publication_state"] in publications
        and flags["risk_class"] != "high"
        and flags["data_classification"] == "unclassified"
        and flags["lifecycle_stage"] not in hidden_stages
    )


@pytest.mark.parametrize("field", VOCABULARIES)
def test_every_value_of_each_vocabulary_is_worn_by_a_unit_and_no_other(
    field: str,
) -> None:
    assert {unit.values[field] for unit in units().values()} == set(VOCABULARIES[field])


def test_the_hub_has_the_size_its_readme_states() -> None:
    legacy = [header for header in documents().values() if header.get("units") == "none"]
    sizes = (len(documents()), len(legacy), len(units()), len(threads()))
    assert sizes == (14, 2, 99, 10)
    readme = (HUB / "README.md").read_text(encoding="utf-8")
    assert "14 documents (2 of them legacy), 99 units, 10 threads" in readme


def test_both_languages_have_units_and_a_legacy_document() -> None:
    legacy = [header for header in documents().values() if header.get("units") == "none"]
    assert sorted(header["language"] for header in legacy) == ["en", "vi"]
    assert min(Counter(unit.language for unit in units().values()).values()) >= 40


def test_every_text_is_nfc_and_ends_with_a_newline() -> None:
    for path in sorted(HUB.rglob("*.*")):
        text = path.read_text(encoding="utf-8")
        assert unicodedata.is_normalized("NFC", text), path.name
        assert text.endswith("\n"), path.name


def test_long_units_a_table_a_code_block_and_a_numbered_list_exist() -> None:
    bodies = [unit.body for unit in units().values()]
    long_units = [unit for unit in units().values() if len(unit.body) >= 3000]
    assert {unit.language for unit in long_units} == {"vi", "en"}
    assert len(long_units) >= 4
    assert any("|---|" in body for body in bodies)
    assert any("```python" in body for body in bodies)
    assert any(re.search(r"^3\. ", body, re.MULTILINE) for body in bodies)


def test_an_older_text_changes_some_units_and_leaves_the_rest() -> None:
    older = sorted(HUB.glob("revisions/*.md"))
    assert len(older) == 2
    for path in older:
        old = {unit.address: (unit.title, unit.body) for unit in parse_units(path)}
        new = {unit.address: (unit.title, unit.body) for unit in units().values()}
        assert old.keys() <= new.keys()
        changed = {address for address in old if old[address] != new[address]}
        assert 2 <= len(changed) < len(old), path.name


def test_memberships_name_known_threads_and_units_once() -> None:
    members = rows("tables/thread_membership")
    keys = [(row["thread_id"], row["canonical_address"]) for row in members]
    assert len(keys) == len(set(keys))
    assert {thread_id for thread_id, _ in keys} == set(threads())
    assert {address for _, address in keys} <= set(units())


def test_memberships_show_every_role_and_status_and_low_confidence() -> None:
    members = rows("tables/thread_membership")
    assert {row["role"] for row in members} == set(MembershipRole)
    assert {row["status"] for row in members} == set(MembershipStatus)
    assert all(0 <= row["confidence"] <= 1 for row in members)
    assert sum(row["confidence"] < 0.5 for row in members) >= 4


def test_threads_anchor_on_known_units_and_wear_known_labels() -> None:
    labels = {row["label"] for row in rows("tables/vocabulary_label")}
    for thread in threads().values():
        assert set(thread["anchors"]) <= set(units()), thread["thread_id"]
        assert set(thread["labels"]) <= labels, thread["thread_id"]
        for flag in (
            "visibility",
            "readiness",
            "publication_state",
            "risk_class",
            "authority",
        ):
            assert thread[flag] in set(VOCABULARIES[flag])


def test_refunds_hold_both_languages_and_the_whole_lifecycle() -> None:
    members = [
        units()[row["canonical_address"]]
        for row in rows("tables/thread_membership")
        if row["thread_id"] == "thread-refunds" and row["status"] == "confirmed"
    ]
    assert {unit.language for unit in members} == {"vi", "en"}
    assert {unit.values["lifecycle_stage"] for unit in members} == set(LifecycleStage)


def test_exactly_two_edges_dangle() -> None:
    known: dict[str, set[str]] = {
        "unit": set(units()),
        "document": set(documents()),
        "thread": set(threads()),
    }
    edges = rows("tables/universal_edge")
    assert all(edge["source_id"] in known[edge["source_kind"]] for edge in edges)
    dangling = [
        edge["target_id"] for edge in edges if edge["target_id"] not in known[edge["target_kind"]]
    ]
    assert dangling == ["TH-QC-09/chong-gian-lan", "th-bank-file-format"]


def test_each_label_has_aliases_in_both_languages() -> None:
    by_label: dict[str, set[str]] = {}
    for row in rows("tables/vocabulary_label"):
        assert row["aliases"]
        by_label.setdefault(row["label"], set()).add(row["language"])
    assert all(languages == {"vi", "en"} for languages in by_label.values())


def test_missing_artefacts_are_open_or_resolved_and_open_ones_are_really_missing() -> None:
    artefacts = rows("tables/expected_artifact_missing")
    assert {row["status"] for row in artefacts} == {"open", "resolved"}
    present = {
        (row["thread_id"], units()[row["canonical_address"]].values["lifecycle_stage"])
        for row in rows("tables/thread_membership")
        if row["status"] == "confirmed" and row["role"] != "supporting"
    }
    for row in artefacts:
        has_stage = (row["thread_id"], row["lifecycle_stage"]) in present
        assert has_stage == (row["status"] == "resolved"), row["description"]


def test_health_signals_name_known_threads_and_words() -> None:
    signals = rows("tables/health_signal")
    assert {row["status"] for row in signals} == set(HealthStatus)
    assert {row["thread_id"] for row in signals} <= set(threads())


def test_events_cover_seven_local_days_and_one_of_them_is_quiet() -> None:
    days = Counter(
        local_time(row["occurred_at"]).date() for row in rows("tables/retrieval_metric_event")
    )
    assert sorted(days) == [date(2026, 11, day) for day in range(16, 23)]
    assert 400 <= sum(days.values()) <= 600
    assert 0 < days[date(2026, 11, 22)] <= 15


def test_events_use_only_the_words_of_the_contract() -> None:
    events = rows("tables/retrieval_metric_event")
    assert {row["type"] for row in events} == EVENT_TYPES
    assert {row["lane"] for row in events} == set(Audience)
    assert {row["resolution_path"] for row in events} == {
        "thread",
        "candidates",
        "fallback",
        "none",
    }
    reasons = {row["reason"] for row in events if row["type"] == "query"}
    assert reasons == {None, "missing_thread", "weak_thread", "explicit_raw", "empty"}
    assert {row["thread_id"] for row in events} - {None} <= set(threads())


def test_every_event_follows_a_query_of_its_session_and_lane() -> None:
    events = rows("tables/retrieval_metric_event")
    asked = {
        row["query_id"]: (row["session_id"], row["lane"], row["occurred_at"])
        for row in events
        if row["type"] == "query"
    }
    for row in events:
        session_id, lane, occurred_at = asked[row["query_id"]]
        assert (row["session_id"], row["lane"]) == (session_id, lane)
        assert row["occurred_at"] >= occurred_at


def test_events_hold_duplicates_late_arrivals_and_a_session_across_midnight() -> None:
    events = rows("tables/retrieval_metric_event")
    assert len(events) - len({row["event_id"] for row in events}) == 6
    lateness = [
        datetime.fromisoformat(row["ingested_at"]) - datetime.fromisoformat(row["occurred_at"])
        for row in events
    ]
    assert min(lateness) > timedelta(0)
    late = [delay for delay in lateness if delay >= timedelta(days=1)]
    assert len(late) == 9
    assert max(late) <= timedelta(days=3)
    days_of_query: dict[str, set[date]] = {}
    for row in events:
        days_of_query.setdefault(row["query_id"], set()).add(local_time(row["occurred_at"]).date())
    assert sum(len(days) == 2 for days in days_of_query.values()) == 2


def test_readme_states_the_figures_of_the_week() -> None:
    events = rows("tables/retrieval_metric_event")
    unique = {row["event_id"]: row for row in events}
    queries = [row for row in unique.values() if row["type"] == "query"]
    paths = Counter(row["resolution_path"] for row in queries)
    readme = (HUB / "README.md").read_text(encoding="utf-8")
    assert f"{len(events)} lines, {len(unique)} different events" in readme
    assert f"{len(queries)} queries (duplicates collapsed): {paths['thread']} by a thread" in readme
    assert f"{paths['candidates']} with candidates, {paths['fallback']} by fallback" in readme


def test_no_event_shows_a_thread_to_a_lane_that_sees_nothing_of_it() -> None:
    shown = {
        (row["thread_id"], lane)
        for row in rows("tables/thread_membership")
        for lane in Audience
        if row["status"] == "confirmed" and is_visible(units()[row["canonical_address"]], lane)
    }
    for row in rows("tables/retrieval_metric_event"):
        assert row["thread_id"] is None or (row["thread_id"], row["lane"]) in shown, row["event_id"]


@pytest.mark.parametrize("question", rows("questions"), ids=lambda row: str(row["question_id"]))
def test_each_question_has_an_answer_that_its_lane_may_read(question: Row) -> None:
    members = {
        row["canonical_address"]
        for row in rows("tables/thread_membership")
        if row["thread_id"] == question["thread_id"] and row["status"] == "confirmed"
    }
    for address in question["canonical_addresses"]:
        assert address in members
        assert is_visible(units()[address], question["lane"])


def test_readme_counts_what_each_lane_sees_of_a_thread() -> None:
    readme = (HUB / "README.md").read_text(encoding="utf-8")
    for thread in threads().values():
        members = [
            units()[row["canonical_address"]]
            for row in rows("tables/thread_membership")
            if row["thread_id"] == thread["thread_id"] and row["status"] == "confirmed"
        ]
        counts = [sum(is_visible(unit, lane) for unit in members) for lane in Audience]
        row = f"`{thread['thread_id']}` {thread['title']} | {' / '.join(map(str, counts))} |"
        assert row in readme


def test_readme_shows_every_thread_and_every_question() -> None:
    readme = (HUB / "README.md").read_text(encoding="utf-8")
    assert [t for t in threads() if f"`{t}`" not in readme] == []
    assert [q["query"] for q in rows("questions") if q["query"] not in readme] == []
