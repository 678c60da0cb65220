"""Whether a stored context pack may still be served.

Belongs here: the four facts a pack was built from, and their comparison.
Does not belong here: reading either side (stores.pack_store), building a pack (retrieval.packs), age: there is no TTL.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PackKey(BaseModel):
    """What a pack was built from; two equal keys of one (thread, lane) mean the same pack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_revision: int = Field(
        ge=0, description="semantic_thread.input_revision at the time of building."
    )
    policy_version: int = Field(
        ge=0, description="Version of audience_filter_policy that was applied."
    )
    space_id: str = Field(
        description="Vector space in force; another model may resolve other threads."
    )
    code_version: str = Field(description="Version of the rules that build packs.")


def is_fresh(stored: PackKey, current: PackKey) -> bool:
    """Whether nothing that can alter the pack changed since it was built; anything unequal is stale, older or newer."""
    return stored == current


def stale_because(stored: PackKey, current: PackKey) -> tuple[str, ...]:
    """Names of the facts that differ, for counters and reports; empty when fresh.

    Example:
        >>> old = PackKey(input_revision=1, policy_version=1, space_id="s", code_version="1")
        >>> stale_because(old, old.model_copy(update={"policy_version": 2}))
        ('policy_version',)
    """
    return tuple(
        name for name in PackKey.model_fields if getattr(stored, name) != getattr(current, name)
    )
