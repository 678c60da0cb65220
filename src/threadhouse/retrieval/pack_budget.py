"""How much of a pack fits what its reader can take in, and what is left out first.

Belongs here: the estimate of tokens, the order of leaving out, what a shortened pack says of itself.
Does not belong here: the words of the rendering that is measured (pack_render), what a pack holds at all (packs).

The rule. Warnings (gaps, suspect links, the fallback signal), title and purpose are never left out. Units are kept whole or not
at all: half an article is another article. First come the units that the question itself found, then canonical units in reading
order, then reports, latest first, then supporting units. The first that no longer fits ends the list, so what is kept is the
beginning of that order; only a unit that would not even fit alone is passed over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import UUID, uuid5

from threadhouse.retrieval.pack_render import LISTED_AT_MOST, render_markdown, render_unit
from threadhouse.retrieval.packs import (
    PACK_NAMESPACE,
    ContextPack,
    LeftOut,
    LeftOutReason,
    PackUnit,
    TokenBudget,
    level_of,
)

BYTES_PER_TOKEN = 3
"""UTF-8 bytes that one token of a language model stands for, on the safe side.

English has about four; Vietnamese, with its two and three byte letters, between three and four.
"""


def estimate_tokens(text: str) -> int:
    """Tokens of a text, an estimate from its bytes that is meant to be too high rather than too low.

    Example:
        >>> estimate_tokens("Điều 1")
        3
    """
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def fit_pack(pack: ContextPack, limit_tokens: int, found: Sequence[str] = ()) -> ContextPack:
    """The pack with as many whole units as fit, saying what was left out. A pack that fits keeps its id.

    Args:
        limit_tokens: At least 1. What is never left out may exceed it; then no unit is kept.
        found: Ids of the units that the question found, best first.
    """
    units = {unit.logical_unit_id: unit for unit in _by_importance(pack, found)}
    suspects = {link.logical_unit_id: link for link in pack.suspect_links}
    measured = _measured(pack)
    costs = measured.costs

    def cost_of(unit_id: str) -> int:
        if unit_id not in costs:
            text = render_unit(units[unit_id], suspects.get(unit_id))
            costs[unit_id] = estimate_tokens(text) + 1
        return costs[unit_id]

    # A pack that is far too long is not rendered to find out: its bodies alone, a byte a character, say so.
    if sum(len(unit.body) for unit in units.values()) <= limit_tokens * BYTES_PER_TOKEN:
        used = _fixed_tokens(pack, ()) + sum(map(cost_of, units))
        if used <= limit_tokens:
            budget = TokenBudget(limit_tokens=limit_tokens, used_tokens=used, left_out_count=0)
            return pack.model_copy(update={"token_budget": budget})
    # Candidates are those of one question, and part of the rendering.
    fixed = None if pack.candidate_threads else measured.fixed
    if fixed is None:
        fixed = _fixed_tokens(pack, tuple(units.values()))
        if not pack.candidate_threads:
            measured.fixed = fixed
    used = fixed
    kept: set[str] = set()
    for unit_id in units:
        cost = cost_of(unit_id)
        if fixed + cost > limit_tokens:
            continue
        if used + cost > limit_tokens:
            break
        kept.add(unit_id)
        used += cost
    return _shorten(pack, kept, limit_tokens, used)


@dataclass(slots=True)
class _Measured:
    """Estimated tokens of a pack's units as far as they are known, and of everything else were all of them left out."""

    costs: dict[str, int] = field(default_factory=dict[str, int])
    fixed: int | None = None


_REMEMBERED_PACKS = 1_000
"""Packs whose numbers are kept; none of their text."""

_remembered: OrderedDict[UUID, _Measured] = OrderedDict()


def _measured(pack: ContextPack) -> _Measured:
    """What is known of a pack. Its id is that of its content, and packs are asked for often."""
    measured = _remembered.pop(pack.pack_id, None) or _Measured()
    _remembered[pack.pack_id] = measured
    while len(_remembered) > _REMEMBERED_PACKS:
        _remembered.popitem(last=False)
    return measured


def _by_importance(pack: ContextPack, found: Sequence[str]) -> list[PackUnit]:
    """Every unit of the pack once, most important first."""
    place = {address: rank for rank, address in enumerate(pack.recommended_reading_order)}
    by_id = {unit.logical_unit_id: unit for unit in pack.units()}
    in_order = [
        *(by_id[unit_id] for unit_id in found if unit_id in by_id),
        *sorted(pack.canonical_units, key=lambda unit: place[unit.canonical_address]),
        *pack.latest_reports,
        *sorted(pack.supporting_units, key=lambda unit: place[unit.canonical_address]),
    ]
    return list({unit.logical_unit_id: unit for unit in in_order}.values())


def _fixed_tokens(pack: ContextPack, left_out: Sequence[PackUnit]) -> int:
    """What everything but the units takes, were ``left_out`` left out; at most so much, whichever of them are."""
    longest = sorted(left_out, key=lambda unit: -len(unit.canonical_address.encode()))
    entries = [_left_out(unit) for unit in longest[:LISTED_AT_MOST]]
    # The last entries stand for the rest: only their number is shown.
    entries += entries[-1:] * (len(left_out) - len(entries))
    bare = pack.model_copy(
        update={"recommended_reading_order": (), "left_out": (*entries, *pack.left_out)}
    )
    # And the line that says that no unit is in the pack, which is not there while the units are.
    return estimate_tokens(render_markdown(bare)) + NO_UNIT_TOKENS


NO_UNIT_TOKENS = 40
"""Room for the sentence of a pack without units and for the digits of the counts."""


def _shorten(pack: ContextPack, kept: set[str], limit_tokens: int, used_tokens: int) -> ContextPack:
    everything = pack.units()
    units = [unit for unit in everything if unit.logical_unit_id in kept]
    gone = [unit for unit in everything if unit.logical_unit_id not in kept]
    if not gone:
        budget = TokenBudget(limit_tokens=limit_tokens, used_tokens=used_tokens, left_out_count=0)
        return pack.model_copy(update={"token_budget": budget})
    addresses = {unit.canonical_address for unit in units}
    without = {unit.canonical_address for unit in gone}
    name = f"{pack.pack_id}\0" + "\0".join(sorted(addresses))
    return pack.model_copy(
        update={
            "pack_id": uuid5(PACK_NAMESPACE, name),
            "canonical_units": _of(pack.canonical_units, kept),
            "supporting_units": _of(pack.supporting_units, kept),
            "latest_reports": _of(pack.latest_reports, kept),
            "related_design_code_links": tuple(
                link
                for link in pack.related_design_code_links
                if link.pack_end_address not in without
            ),
            "authority_or_risk_level": level_of(units),
            "recommended_reading_order": tuple(
                address for address in pack.recommended_reading_order if address in addresses
            ),
            "source_revisions": {
                address: revision
                for address, revision in pack.source_revisions.items()
                if address in addresses
            },
            "left_out": (*pack.left_out, *map(_left_out, gone)),
            "token_budget": TokenBudget(
                limit_tokens=limit_tokens, used_tokens=used_tokens, left_out_count=len(gone)
            ),
        }
    )


def _of(units: Sequence[PackUnit], kept: set[str]) -> tuple[PackUnit, ...]:
    return tuple(unit for unit in units if unit.logical_unit_id in kept)


def _left_out(unit: PackUnit) -> LeftOut:
    return _left_out_for_length(unit.logical_unit_id, unit.canonical_address)


# Most of a big pack is left out of every answer, and nobody can change an entry.
@lru_cache(maxsize=65_536)
def _left_out_for_length(unit_id: str, address: str) -> LeftOut:
    return LeftOut(logical_unit_id=unit_id, canonical_address=address, reason=LeftOutReason.LENGTH)
