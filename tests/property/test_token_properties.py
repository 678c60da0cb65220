"""Whatever is changed in a token, it is refused."""

from __future__ import annotations

import string
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.errors import InvalidTokenError, TokenGrantError
from threadhouse.retrieval.models import Audience
from threadhouse.serving.tokens import Grant, issue_token, verify_token
from threadhouse.stores.token_keys import TokenKeys, read_token_keys
from token_house import TokenHouse

HOUR = timedelta(hours=1)
# A shorter text is in every sentence.
QUOTED_CHARS = 30
ALPHABET = string.ascii_letters + string.digits + "-_.=+/ é\x00"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> TokenHouse:
    return TokenHouse.build(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def keys(house: TokenHouse) -> TokenKeys:
    return read_token_keys(house.settings)


@pytest.fixture(scope="module")
def tokens(house: TokenHouse, keys: TokenKeys) -> list[str]:
    """One a key, the same for every example."""
    grant = Grant("agent-7", Audience.AI_AGENT, tool_permissions=("read:drafts",))
    return [issue_token(grant, key, house.tokens.rules, HOUR) for key in keys.keys]


def is_refused(token: str, keys: TokenKeys, house: TokenHouse) -> bool:
    try:
        verify_token(token, keys, house.tokens.rules)
    except InvalidTokenError as error:
        return len(token) < QUOTED_CHARS or token not in str(error)
    return False


@given(data=st.data())
def test_a_token_with_any_character_changed_is_refused(
    house: TokenHouse, keys: TokenKeys, tokens: list[str], data: st.DataObject
) -> None:
    token = data.draw(st.sampled_from(tokens))
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from([c for c in ALPHABET if c != token[place]]))
    assert is_refused(token[:place] + other + token[place + 1 :], keys, house)


def test_a_token_with_the_last_bits_of_a_part_changed_is_refused(
    house: TokenHouse, keys: TokenKeys, tokens: list[str]
) -> None:
    """The last character of a part carries bits that mean nothing; they may not be free either, nor may padding be added."""
    for token in tokens:
        for padding in ("=", "=="):
            assert is_refused(token + padding, keys, house)
            assert is_refused(token.replace(".", padding + "."), keys, house)
            assert is_refused(token.replace(".", padding + ".", 1), keys, house)
        for place in [i - 1 for i, c in enumerate(token) if c == "."] + [len(token) - 1]:
            for other in ALPHABET.replace(token[place], ""):
                assert is_refused(token[:place] + other + token[place + 1 :], keys, house)


@given(data=st.data())
def test_a_token_with_anything_cut_out_put_in_or_swapped_is_refused(
    house: TokenHouse, keys: TokenKeys, tokens: list[str], data: st.DataObject
) -> None:
    token = data.draw(st.sampled_from(tokens))
    start = data.draw(st.integers(0, len(token)))
    end = data.draw(st.integers(start, len(token)))
    put_in = data.draw(st.text(alphabet=ALPHABET, max_size=5))
    mutated = token[:start] + put_in + token[end:]
    if mutated != token:
        assert is_refused(mutated, keys, house)
    mine, theirs = (each.split(".") for each in tokens)
    mixed = [data.draw(st.sampled_from(pair)) for pair in zip(mine, theirs, strict=True)]
    if mixed not in (mine, theirs):
        assert is_refused(".".join(mixed), keys, house)


@given(token=st.text(max_size=300) | st.from_regex(r"[\w-]+\.[\w-]*\.[\w-]*", fullmatch=True))
def test_any_other_text_is_refused(house: TokenHouse, keys: TokenKeys, token: str) -> None:
    assert is_refused(token, keys, house)


words = st.lists(st.text(min_size=1, max_size=20), max_size=4).map(tuple)


@given(
    subject=st.text(max_size=30),
    audience=st.sampled_from(Audience),
    roles=words,
    permissions=words,
    lifetime_s=st.integers(-10, 40 * 86_400),
    data=st.data(),
)
def test_what_is_issued_is_accepted_and_says_no_more_than_was_granted(
    house: TokenHouse,
    keys: TokenKeys,
    subject: str,
    audience: Audience,
    roles: tuple[str, ...],
    permissions: tuple[str, ...],
    lifetime_s: int,
    data: st.DataObject,
) -> None:
    grant = Grant(subject, audience, roles, (), permissions)
    key = data.draw(st.sampled_from(keys.keys))
    try:
        token = issue_token(grant, key, house.tokens.rules, timedelta(seconds=lifetime_s))
    except TokenGrantError:
        return
    principal = verify_token(token, keys, house.tokens.rules).principal
    assert (principal.subject, principal.audience) == (subject, audience)
    assert principal.roles == set(roles)
    assert principal.tool_permissions == set(permissions)
    assert not permissions or audience is Audience.AI_AGENT
    assert not principal.high_risk_consents
