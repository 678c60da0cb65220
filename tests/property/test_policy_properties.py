"""What holds for every change of a policy."""

from __future__ import annotations

import random
from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from label_house import random_lane, random_policy, random_principal
from threadhouse.retrieval.audience import FILTERED_FIELDS, AudiencePolicy, allowed_values
from threadhouse.retrieval.errors import PolicyDocumentError
from threadhouse.retrieval.models import Audience
from threadhouse.retrieval.policy_documents import compare_policies, parse_policy, render_policy

seeds = st.integers(0, 2**32)


def two_policies(rng: random.Random) -> tuple[AudiencePolicy, AudiencePolicy]:
    """A policy and one that is mostly the same, so that a change is often of one kind alone."""
    old = random_policy(rng, 1)
    lanes = dict(old.lanes)
    for audience in rng.sample([*Audience], rng.randint(1, 2)):
        fresh = random_lane(rng)
        if audience in lanes and rng.random() < 0.8:
            part = rng.choice([f.name for f in fields(fresh)])
            fresh = replace(lanes[audience], **{part: getattr(fresh, part)})
        lanes[audience] = fresh
    return old, AudiencePolicy(2, lanes)


@given(seed=seeds)
def test_whoever_sees_more_is_named_as_somebody_who_sees_more(seed: int) -> None:
    rng = random.Random(seed)
    old, new = two_policies(rng)
    widened = {change.audience for change in compare_policies(old, new).widens}
    for audience in Audience:
        for _ in range(5):
            who = random_principal(rng, audience)
            before, after = allowed_values(who, old), allowed_values(who, new)
            if any(after[name] - before[name] for name in FILTERED_FIELDS):
                assert audience in widened, who


@given(seed=seeds)
def test_the_way_back_narrows_what_the_way_there_widened(seed: int) -> None:
    old, new = two_policies(random.Random(seed))
    there, back = compare_policies(old, new), compare_policies(new, old)
    assert (there.widens, there.narrows) == (back.narrows, back.widens)


@given(seed=seeds)
def test_a_policy_that_was_read_is_shown_as_it_was_read(seed: int) -> None:
    rng = random.Random(seed)
    policy = random_policy(rng, 7)
    try:
        document = parse_policy(render_policy(policy))
    except PolicyDocumentError:
        return  # most random policies hold words that a file may not
    assert document.as_version(7) == policy
