"""The audience policy as a file: its form, what is wrong with one, and what a change of it opens and closes.

Belongs here: reading and writing the file's text, the vocabulary check, the comparison of two policies.
Does not belong here: what a policy decides (retrieval.audience), where versions are stored (stores.audience_policy).

A policy can open nothing that takes more than a policy: secret and blocked are shown to nobody, high risk takes a consent. A file
that names them is refused, so that nobody believes to have opened them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    NEVER_SHOWN,
    VOCABULARY,
    AudiencePolicy,
    LanePolicy,
)
from threadhouse.retrieval.errors import PolicyDocumentError
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    Json,
    LifecycleStage,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)

MAX_CHARS = 200_000
"""A policy has a few dozen words; a longer file is another one given by mistake."""

MAX_DEPTH = 10
"""A policy is five deep. Reading thousands of open brackets takes minutes, because a scanner looks at each from each."""

MAX_NAME_CHARS = 200
"""The longest name of a permission, a role or a task scope; a token takes no longer one."""

EVERYBODY = ""
"""Holder of what an audience sees without holding anything."""

_ONLY_WITH_MORE: Mapping[str, str] = {
    **dict.fromkeys(NEVER_SHOWN, "is shown to nobody, so no policy can open it"),
    RiskClass.HIGH.value: "takes a consent, so no policy can open it",
}
_FIELD_NAMES = {name: name.replace("_", " ") for name in FILTERED_FIELDS}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GrantedValues(_Part):
    """What holding a permission adds, by field."""

    visibility: tuple[Visibility, ...] = ()
    readiness: tuple[Readiness, ...] = ()
    publication_state: tuple[PublicationState, ...] = ()
    risk_class: tuple[RiskClass, ...] = ()
    authority: tuple[Authority, ...] = ()
    lifecycle_stage: tuple[LifecycleStage, ...] = ()
    data_classification: tuple[DataClassification, ...] = ()


class AudienceRules(_Part):
    """One audience: what all of it sees, and what its members can hold beyond that."""

    visibility: tuple[Visibility, ...]
    readiness: tuple[Readiness, ...]
    publication_state: tuple[PublicationState, ...]
    risk_class: tuple[RiskClass, ...]
    authority: tuple[Authority, ...]
    lifecycle_stage: tuple[LifecycleStage, ...]
    data_classification: tuple[DataClassification, ...]
    permissions: dict[str, GrantedValues] = Field(default_factory=dict[str, GrantedValues])
    roles: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    task_scopes: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])


class _Document(_Part):
    policy_version: int | None = Field(default=None, ge=1)
    audiences: dict[Audience, AudienceRules]


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """A policy that passed every check; ``made_from`` is the version that the file names, None when it names none."""

    lanes: Mapping[Audience, LanePolicy]
    made_from: int | None

    def as_version(self, version: int) -> AudiencePolicy:
        """The policy under a version number."""
        return AudiencePolicy(version, self.lanes)


@dataclass(frozen=True, slots=True, order=True)
class PolicyChange:
    """One thing that an audience can see or hold.

    Attributes:
        holder: ``EVERYBODY``, or who has to be what: ``permission read:drafts``, ``role author``, ``task scope authoring``.
        what: ``visibility: internal``, or for roles and task scopes ``permission read:drafts``.
    """

    audience: Audience
    holder: str
    what: str

    def __str__(self) -> str:
        return f"{self.what}, with {self.holder}" if self.holder else self.what

    def to_json(self) -> dict[str, Json]:
        """For the log of changes."""
        return {"audience": self.audience.value, "holder": self.holder, "what": self.what}


@dataclass(frozen=True, slots=True)
class PolicyDiff:
    """What a new policy opens and closes. When ``widens`` is empty, nobody sees anything that it did not see before."""

    widens: tuple[PolicyChange, ...]
    narrows: tuple[PolicyChange, ...]

    @property
    def is_empty(self) -> bool:
        return not self.widens and not self.narrows

    def render(self) -> str:
        """By audience, ``+`` for what is opened and ``-`` for what is closed, and one sentence that says who sees more."""
        if self.is_empty:
            return "Nothing changes for anybody."
        lines: list[str] = []
        for audience in Audience:
            opened = [f"  + {change}" for change in self.widens if change.audience is audience]
            closed = [f"  - {change}" for change in self.narrows if change.audience is audience]
            if opened or closed:
                lines += [audience.value, *opened, *closed]
        more = list(dict.fromkeys(change.audience.value for change in self.widens))
        if more:
            lines.append(f"This widens what {_listed(more)} may see.")
        else:
            lines.append("Nobody sees more than before.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Json]:
        """For programs."""
        return {
            "widens": [change.to_json() for change in self.widens],
            "narrows": [change.to_json() for change in self.narrows],
        }


def parse_policy(text: str) -> PolicyDocument:
    """A policy from YAML or JSON.

    Raises:
        PolicyDocumentError: Something in it is not a policy; the message names the place and what would be right.
    """
    if len(text) > MAX_CHARS:
        message = f"A policy has at most {MAX_CHARS:,} characters; this is another file."
        raise PolicyDocumentError(message)
    try:
        _refuse_repeated_keys(text)
        data: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where is not None else ""
        reason = getattr(error, "problem", None) or "it is no YAML"
        message = f"The policy cannot be read{line}: {reason}; correct it, or start from threadhouse policy show."
        raise PolicyDocumentError(message) from None
    if not isinstance(data, dict) or "audiences" not in data:
        message = "A policy begins with audiences:, and names each of them; start from threadhouse policy show."
        raise PolicyDocumentError(message)
    try:
        document = _Document.model_validate(data)
    except ValidationError as error:
        raise PolicyDocumentError(_sentence(error)) from None
    for audience in Audience:
        if audience not in document.audiences:
            message = f"The policy says nothing about {audience.value}; name every audience, with empty lists if need be."
            raise PolicyDocumentError(message)
    for audience, rules in document.audiences.items():
        _check(audience, rules)
    lanes = {audience: _lane(document.audiences[audience]) for audience in Audience}
    return PolicyDocument(lanes, document.policy_version)


def policy_to_json(policy: AudiencePolicy) -> dict[str, Json]:
    """A policy in the form of the file, words in the order of the vocabulary."""
    return {
        "policy_version": policy.version,
        "audiences": {
            audience.value: _rules_to_json(policy.lanes[audience])
            for audience in Audience
            if audience in policy.lanes
        },
    }


def render_policy(policy: AudiencePolicy) -> str:
    """A policy as the file that `parse_policy` reads."""
    return yaml.safe_dump(
        policy_to_json(policy),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=120,
    )


def compare_policies(old: AudiencePolicy, new: AudiencePolicy) -> PolicyDiff:
    """What changes from ``old`` to ``new``, judged cautiously: what may open something counts as opening it."""
    before, after = _openings(old), _openings(new)
    return PolicyDiff(_beyond(after, before), _beyond(before, after))


def _beyond(those: set[PolicyChange], others: set[PolicyChange]) -> tuple[PolicyChange, ...]:
    """What only ``those`` say; what everybody of the audience has in ``others`` is nothing that a permission adds."""
    return tuple(
        sorted(
            change
            for change in those - others
            if PolicyChange(change.audience, EVERYBODY, change.what) not in others
        )
    )


def _openings(policy: AudiencePolicy) -> set[PolicyChange]:
    found: set[PolicyChange] = set()
    for audience, lane in policy.lanes.items():
        lists = {name: getattr(lane, name) for name in FILTERED_FIELDS}
        found |= {PolicyChange(audience, EVERYBODY, what) for what in _values(lists)}
        for permission, grants in lane.permission_grants.items():
            holder = f"permission {permission}"
            found |= {PolicyChange(audience, holder, what) for what in _values(grants)}
        for kind, holders in (("role", lane.role_grants), ("task scope", lane.task_scope_limits)):
            found |= {
                PolicyChange(audience, f"{kind} {name}", f"permission {permission}")
                for name, held in holders.items()
                for permission in held & lane.permission_grants.keys()
            }
    return found


def _values(lists: Mapping[str, Iterable[str]]) -> set[str]:
    """The words that a policy can open, with their fields."""
    return {
        f"{_FIELD_NAMES[name]}: {word}"
        for name, words in lists.items()
        if name in _FIELD_NAMES
        for word in words
        if word in VOCABULARY[name] and word not in _ONLY_WITH_MORE
    }


def _check(audience: Audience, rules: AudienceRules) -> None:
    """What the types alone do not say."""
    _check_words(audience.value, rules)
    for permission, granted in rules.permissions.items():
        _check_words(f"{audience.value}, {permission}", granted)
    _check_names(audience, "permission", rules.permissions)
    for kind, holders in (("role", rules.roles), ("task scope", rules.task_scopes)):
        _check_names(audience, kind, holders)
        for name, held in holders.items():
            for permission in held:
                if permission not in rules.permissions:
                    message = (
                        f"{audience.value}: {kind} {name} names {permission}, which is no permission of {audience.value}; "
                        "define it under permissions, or take it out."
                    )
                    raise PolicyDocumentError(message)


def _check_words(where: str, lists: AudienceRules | GrantedValues) -> None:
    for name in FILTERED_FIELDS:
        for word in getattr(lists, name):
            if word in _ONLY_WITH_MORE:
                message = (
                    f"{where}: {_FIELD_NAMES[name]} {word} {_ONLY_WITH_MORE[word]}; take it out."
                )
                raise PolicyDocumentError(message)


def _check_names(audience: Audience, kind: str, names: Iterable[str]) -> None:
    for name in names:
        if (
            not name.strip()
            or name != name.strip()
            or len(name) > MAX_NAME_CHARS
            or not name.isprintable()
        ):
            message = (
                f"{audience.value}: {name[:MAX_NAME_CHARS]!r} cannot be the name of a {kind}; "
                f"use up to {MAX_NAME_CHARS} visible characters."
            )
            raise PolicyDocumentError(message)


def _lane(rules: AudienceRules) -> LanePolicy:
    return LanePolicy(
        **{name: _words(getattr(rules, name)) for name in FILTERED_FIELDS},
        permission_grants={
            permission: {
                name: words for name in FILTERED_FIELDS if (words := _words(getattr(granted, name)))
            }
            for permission, granted in rules.permissions.items()
        },
        role_grants={name: frozenset(held) for name, held in rules.roles.items()},
        task_scope_limits={name: frozenset(held) for name, held in rules.task_scopes.items()},
    )


def _words(values: Iterable[StrEnum]) -> frozenset[str]:
    return frozenset(value.value for value in values)


def _rules_to_json(lane: LanePolicy) -> dict[str, Json]:
    document: dict[str, Json] = {
        name: _in_order(name, getattr(lane, name)) for name in FILTERED_FIELDS
    }
    document["permissions"] = {
        permission: {
            name: _in_order(name, words)
            for name in FILTERED_FIELDS
            if (words := granted.get(name, frozenset()))
        }
        for permission, granted in sorted(lane.permission_grants.items())
    }
    document["roles"] = {name: [*sorted(held)] for name, held in sorted(lane.role_grants.items())}
    document["task_scopes"] = {
        name: [*sorted(held)] for name, held in sorted(lane.task_scope_limits.items())
    }
    return document


_ORDER: Mapping[str, Sequence[str]] = {
    "visibility": [*Visibility],
    "readiness": [*Readiness],
    "publication_state": [*PublicationState],
    "risk_class": [*RiskClass],
    "authority": [*Authority],
    "lifecycle_stage": [*LifecycleStage],
    "data_classification": [*DataClassification],
}


def _in_order(name: str, words: Iterable[str]) -> list[Json]:
    given = set(words)
    known: list[Json] = [str(word) for word in _ORDER[name] if word in given]
    return [*known, *sorted(given - VOCABULARY[name])]


def _refuse_repeated_keys(text: str) -> None:
    """A name that stands twice would count once, and nobody could tell which. References could make a short file endless."""
    keys: list[set[str] | None] = []
    is_key: list[bool] = []
    for event in cast("Iterator[Any]", yaml.parse(text, Loader=yaml.SafeLoader)):  # pyright: ignore[reportUnknownMemberType]
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="a policy has no references", problem_mark=event.start_mark
            )
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            keys.pop()
            is_key.pop()
        elif isinstance(event, yaml.NodeEvent) and keys and keys[-1] is not None:
            names, expects_key = keys[-1], is_key[-1]
            is_key[-1] = not expects_key
            if expects_key and isinstance(event, yaml.ScalarEvent):
                if event.value in names:
                    raise yaml.MarkedYAMLError(
                        problem=f"{event.value} stands twice", problem_mark=event.start_mark
                    )
                names.add(event.value)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(keys) == MAX_DEPTH:
                raise yaml.MarkedYAMLError(
                    problem="it is nested too deeply", problem_mark=event.start_mark
                )
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            is_key.append(True)


def _sentence(error: ValidationError) -> str:
    fault: Any = error.errors(include_url=False)[0]
    place = [
        str(part)
        for part in fault["loc"]
        if part not in {"audiences", "[key]"} and not isinstance(part, int)
    ]
    where = ", ".join(place) or "the policy"
    given = fault.get("input")
    if fault["type"] == "missing":
        name, where = place[-1], ", ".join(place[:-1])
        return f"{where}: {name} is missing; give the list of its words, an empty one when nothing is allowed."
    if fault["type"] == "extra_forbidden":
        return f"{where} is nothing that a policy has; take it out, or compare its spelling with threadhouse policy show."
    if fault["type"] == "enum":
        words = fault["ctx"]["expected"]
        if fault["loc"][-1] == "[key]":
            return f"{given!r} is no audience; the audiences are {words}."
        return f"{where}: {given!r} is no word of it; use {words}."
    return (
        f"{where}: {str(fault['msg']).rstrip('.')}; compare its form with threadhouse policy show."
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
