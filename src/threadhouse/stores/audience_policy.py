"""Versions of the audience policy in ``cong.audience_filter_policy``.

Belongs here: reading the version in force, putting a new one in force with its log.
Does not belong here: the file's form and what a change opens (retrieval.policy_documents), asking a person (pipelines).
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from threadhouse.retrieval.audience import AudiencePolicy
from threadhouse.retrieval.errors import ConfigurationError, PolicyConflictError
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.policy_documents import (
    PolicyDiff,
    PolicyDocument,
    compare_policies,
    policy_to_json,
)
from threadhouse.stores import queries
from threadhouse.stores.knowledge import KnowledgeReader


def read_audience_policy(connection: Connection[TupleRow]) -> AudiencePolicy:
    """The version in force.

    Raises:
        ConfigurationError: No version is activated, or it cannot be read.
    """
    return KnowledgeReader(connection).policy()


def apply_audience_policy(
    connection: Connection[TupleRow],
    document: PolicyDocument,
    made_from: int,
    *,
    applied_by: str,
    reason: str,
) -> tuple[int, PolicyDiff]:
    """Put a policy in force as the next version, whole or not at all, and log who did it, why, and what it opens and closes.

    Nothing holds before the caller's transaction commits; from then on every read is decided by it and no older pack is served.

    Args:
        document: The new policy.
        made_from: The version that the change was made from, and that whoever confirmed it was shown.
        applied_by: The person or the program.
        reason: In a person's words.

    Returns:
        The new version and what it changes.

    Raises:
        PolicyConflictError: Another version is in force by now; nothing was written.
    """
    connection.execute(queries.load("audience_policy_lock"))
    current = read_audience_policy(connection)
    if current.version != made_from:
        message = (
            f"Version {current.version} of the policy is in force{_by_whom(connection, current.version)}, and yours was made "
            f"from version {made_from}; look at threadhouse policy diff again."
        )
        raise PolicyConflictError(message)
    diff = compare_policies(current, document.as_version(current.version + 1))
    changes = diff.to_json()
    row = connection.execute(
        queries.load("audience_policy_write"),
        {
            "rules": Jsonb(_rows(document)),
            "previous_version": current.version,
            "applied_by": applied_by,
            "reason": reason,
            "widens": Jsonb(changes["widens"]),
            "narrows": Jsonb(changes["narrows"]),
            "who": ", ".join(dict.fromkeys(change.audience.value for change in diff.widens)),
        },
    ).fetchone()
    if row is None:
        message = "cong.audience_filter_policy took no new version; check the rights on the table."
        raise ConfigurationError(message)
    return int(row[0]), diff


def _rows(document: PolicyDocument) -> list[Json]:
    audiences = policy_to_json(document.as_version(1))["audiences"]
    if not isinstance(audiences, dict):
        return []
    return [
        {"audience": audience, **rules}
        for audience, rules in audiences.items()
        if isinstance(rules, dict)
    ]


def _by_whom(connection: Connection[TupleRow], version: int) -> str:
    row = connection.execute(
        queries.load("audience_policy_last_change"), {"policy_version": version}
    ).fetchone()
    return f" since {row[1]:%Y-%m-%d %H:%M} (UTC), by {row[0]}" if row else ""
