"""Each way in which a token can be wrong is refused by name, and what a right one says becomes a principal."""

from __future__ import annotations

import json
import re
import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    HIGH_RISK_CONSENT,
    VOCABULARY,
    AudiencePolicy,
    LanePolicy,
    visible,
)
from threadhouse.retrieval.errors import InvalidTokenError, TokenGrantError, TokenRefusal
from threadhouse.retrieval.leak_canaries import OPEN
from threadhouse.retrieval.models import Audience, DataClassification
from threadhouse.serving.tokens import (
    AUDIENCE_CLAIM,
    CONSENTS_CLAIM,
    LIST_CLAIMS,
    MAX_TOKEN_CHARS,
    REQUIRED_CLAIMS,
    Grant,
    PrincipalTokens,
)
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import create_key, home_key_file, retire_key
from token_house import SECRET, TokenHouse, as_json, encode, forge

HOUR = timedelta(hours=1)
AGENT = Grant("agent-7", Audience.AI_AGENT)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> TokenHouse:
    return TokenHouse.build(tmp_path_factory.mktemp("tokens"))


def refusal(house: TokenHouse, token: str) -> TokenRefusal:
    with pytest.raises(InvalidTokenError) as caught:
        house.tokens.verify(token)
    story = "".join(traceback.format_exception(caught.value))
    # Nothing of the token reaches a message or a log, not even through the exception it was made from.
    assert caught.value.__cause__ is None
    assert not any(part in str(caught.value) for part in token.split(".") if part)
    assert "agent-7" not in str(caught.value)
    assert SECRET.decode() not in story
    return caught.value.reason


@pytest.mark.parametrize("key_id", [None, "shared"])
def test_what_is_granted_comes_back_as_a_principal(house: TokenHouse, key_id: str | None) -> None:
    grant = Grant(
        "agent-7",
        Audience.AI_AGENT,
        ("reviewer",),
        ("refunds",),
        ("read:drafts",),
        ("confidential",),
    )
    token = house.tokens.issue(grant, HOUR, key_id or house.pair.key_id)
    found = house.tokens.verify(token)
    principal = found.principal
    assert (principal.subject, principal.audience) == ("agent-7", Audience.AI_AGENT)
    assert principal.roles == {"reviewer"}
    assert principal.task_scopes == {"refunds"}
    assert principal.tool_permissions == {"read:drafts"}
    assert principal.classifications == {"confidential"}
    assert principal.high_risk_consents == frozenset()
    assert principal.expires_at == found.expires_at + timedelta(seconds=30)
    assert found.key_id == (key_id or house.pair.key_id)


WRONG_HEADERS: list[tuple[dict[str, Any], TokenRefusal]] = [
    ({"alg": "none"}, TokenRefusal.ALGORITHM),
    ({"alg": "None"}, TokenRefusal.ALGORITHM),
    ({"alg": "EdDSA"}, TokenRefusal.ALGORITHM),
    ({"alg": "HS384"}, TokenRefusal.ALGORITHM),
    ({"alg": ...}, TokenRefusal.ALGORITHM),
    ({"alg": ["HS256"]}, TokenRefusal.ALGORITHM),
    ({"kid": ...}, TokenRefusal.KEY),
    ({"kid": "elsewhere"}, TokenRefusal.KEY),
    ({"kid": "../shared"}, TokenRefusal.KEY),
    ({"kid": ["shared"]}, TokenRefusal.KEY),
    ({"kid": None}, TokenRefusal.KEY),
    ({"crit": ["exp"]}, TokenRefusal.HEADER),
    ({"b64": False, "crit": ["b64"]}, TokenRefusal.HEADER),
    ({"jku": "https://evil.example/keys"}, TokenRefusal.HEADER),
    ({"x5u": "https://evil.example/cert"}, TokenRefusal.HEADER),
    ({"jwk": {"kty": "oct", "k": encode(SECRET)}}, TokenRefusal.HEADER),
    ({"x5c": ["MII"]}, TokenRefusal.HEADER),
    ({"zip": "DEF"}, TokenRefusal.HEADER),
    ({"cty": "JWT"}, TokenRefusal.HEADER),
    ({"typ": "dpop+jwt"}, TokenRefusal.HEADER),
    ({"typ": ["JWT"]}, TokenRefusal.HEADER),
]


@pytest.mark.parametrize(("changed", "reason"), WRONG_HEADERS)
def test_a_header_that_asks_for_anything_else_is_refused(
    house: TokenHouse, changed: dict[str, Any], reason: TokenRefusal
) -> None:
    token = forge(as_json(house.header(**changed)), as_json(house.claims()))
    assert refusal(house, token) is reason


def test_a_token_without_a_signature_is_refused(house: TokenHouse) -> None:
    payload = encode(as_json(house.claims()))
    unsigned = encode(as_json(house.header(alg="none")))
    assert refusal(house, f"{unsigned}.{payload}.") is TokenRefusal.ALGORITHM
    assert refusal(house, f"{encode(as_json(house.header()))}.{payload}.") is TokenRefusal.SIGNATURE


@pytest.mark.parametrize("form", ["raw", "pem", "der", "jwk"])
def test_a_public_key_is_no_secret_to_sign_with(house: TokenHouse, form: str) -> None:
    """Algorithm confusion: HS256 over what everybody may know of the EdDSA key."""
    key = house.pair.material.key.public_key()
    known = {
        "raw": house.public_bytes,
        "pem": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(
            {"kty": "OKP", "crv": "Ed25519", "x": encode(house.public_bytes)}
        ).encode(),
    }[form]
    for alg, reason in (("HS256", TokenRefusal.ALGORITHM), ("EdDSA", TokenRefusal.SIGNATURE)):
        header = as_json({"alg": alg, "kid": house.pair.key_id, "typ": "JWT"})
        assert refusal(house, forge(header, as_json(house.claims()), known)) is reason


def test_a_key_of_somebody_else_signs_nothing_here(house: TokenHouse, tmp_path: Path) -> None:
    theirs = TokenHouse.build(tmp_path)
    assert refusal(house, theirs.tokens.issue(AGENT, HOUR, theirs.pair.key_id)) is TokenRefusal.KEY
    stolen_name = jwt.encode(
        house.claims(), theirs.pair.material, "EdDSA", headers={"kid": house.pair.key_id}
    )
    assert refusal(house, stolen_name) is TokenRefusal.SIGNATURE
    other_secret = forge(as_json(house.header()), as_json(house.claims()), b"x" * 32)
    assert refusal(house, other_secret) is TokenRefusal.SIGNATURE


def test_times_are_checked_with_half_a_minute_of_mercy(house: TokenHouse) -> None:
    now = int(time.time())
    for good in ({"exp": now - 20}, {"nbf": now + 20}, {"iat": now + 20}):
        house.tokens.verify(house.signed(**{"iat": now - 60, "nbf": now - 60, **good}))
    for changed, reason in (
        ({"iat": now - 900, "nbf": now - 900, "exp": now - 31}, TokenRefusal.EXPIRED),
        ({"nbf": now + 90}, TokenRefusal.NOT_YET_VALID),
        ({"iat": now + 90}, TokenRefusal.NOT_YET_VALID),
        ({"exp": now + 31 * 86_400}, TokenRefusal.LIFETIME),
        ({"exp": now + 10 * 365 * 86_400}, TokenRefusal.LIFETIME),
        ({"iat": now - 29 * 86_400, "exp": now + 2 * 86_400}, TokenRefusal.LIFETIME),
        ({"iat": 0}, TokenRefusal.LIFETIME),
        ({"nbf": 0}, TokenRefusal.LIFETIME),
    ):
        assert refusal(house, house.signed(**changed)) is reason, changed


@pytest.mark.parametrize("name", ["iss", "aud", "sub", "iat", "nbf", "exp", AUDIENCE_CLAIM])
@pytest.mark.parametrize("value", [..., None])
def test_every_required_claim_is_required(house: TokenHouse, name: str, value: object) -> None:
    expected = TokenRefusal.CLAIM_MISSING
    assert refusal(house, house.signed(**{name: value})) is expected


WRONG_CLAIMS: list[tuple[dict[str, Any], TokenRefusal]] = [
    ({"iss": "somebody"}, TokenRefusal.ISSUER),
    ({"iss": ["threadhouse"]}, TokenRefusal.ISSUER),
    ({"aud": "another-service"}, TokenRefusal.SERVICE),
    ({"aud": ["threadhouse"]}, TokenRefusal.SERVICE),
    ({"aud": ["threadhouse", "another-service"]}, TokenRefusal.SERVICE),
    ({"aud": {"threadhouse": 1}}, TokenRefusal.SERVICE),
    *(({"sub": value}, TokenRefusal.CLAIM_WRONG) for value in (7, "", " a", "a\n", "a\u202eb", "a" * 201, ["a"])),
    *(
        ({name: value}, TokenRefusal.CLAIM_WRONG)
        for name in ("iat", "nbf")
        for value in (True, "1700000000", 1.5, -1)
    ),
    ({"exp": str(int(time.time()) + 86_400)}, TokenRefusal.CLAIM_WRONG),
    ({"exp": time.time() + 86_400}, TokenRefusal.CLAIM_WRONG),
    ({"exp": 10**20}, TokenRefusal.CLAIM_WRONG),
    ({"exp": []}, TokenRefusal.MALFORMED),
    *(
        ({AUDIENCE_CLAIM: value}, TokenRefusal.CLAIM_WRONG)
        for value in ("operator", "AI_AGENT", "ai_agent ", "", ["ai_agent"], {"a": 1}, 1, True)
    ),
    *(
        ({name: value}, TokenRefusal.CLAIM_WRONG)
        for name in ("roles", "task_scopes", "tool_permissions", "classifications")
        for value in ("a", None, {"a": 1}, [1], [""], [["a"]], [None], ["a"] * 101, ["a" * 201], ["a\x00"])
    ),
    *(
        ({"high_risk_consents": value}, TokenRefusal.CLAIM_WRONG)
        for value in (
            "*",
            ["*"],
            [{}],
            [{"subject": "agent-7"}],
            [{"expires_at": 2_000_000_000}],
            [{"subject": "agent-7", "expires_at": "2100-01-01"}],
            [{"subject": "agent-7", "expires_at": True}],
            [{"subject": 7, "expires_at": 2_000_000_000}],
            [{"subject": "agent-7", "expires_at": 2_000_000_000, "scope": "all"}],
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "reason"), WRONG_CLAIMS)
def test_a_claim_of_another_form_or_word_is_refused(
    house: TokenHouse, changed: dict[str, Any], reason: TokenRefusal
) -> None:
    assert refusal(house, house.signed(**changed)) is reason


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        (AUDIENCE_CLAIM, "customer", "ai_agent"),
        ("exp", 1, 4_102_444_800),
        ("sub", "b", "agent-7"),
    ],
)
def test_a_claim_that_stands_twice_is_refused(
    house: TokenHouse, name: str, first: object, last: object
) -> None:
    """Parsers disagree on which of the two counts, so a token must not have both."""
    once = as_json(house.claims(**{name: last}))
    twice = once[:1] + as_json({name: first})[1:-1] + b"," + once[1:]
    assert refusal(house, forge(as_json(house.header()), twice)) is TokenRefusal.CLAIM_WRONG
    header = b'{"kid":"elsewhere",' + as_json(house.header())[1:]
    assert refusal(house, forge(header, once)) is TokenRefusal.MALFORMED


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b", "a.b.c.d", "Bearer x.y.z", "e30.e30.", " a.b.c", "é.b.c", "\ud800.b.c", "a=.b.c", "[].[].[]"],
)  # fmt: skip
def test_what_is_no_token_is_refused(house: TokenHouse, token: str) -> None:
    with pytest.raises(InvalidTokenError) as caught:
        house.tokens.verify(token)
    assert caught.value.reason in {TokenRefusal.MALFORMED, TokenRefusal.KEY}


def test_a_huge_or_deep_token_is_refused_before_anything_is_computed(house: TokenHouse) -> None:
    assert refusal(house, house.signed(note="x" * 9_000)) is TokenRefusal.TOO_LARGE
    deep = b"[" * 2_000 + b"]" * 2_000
    assert refusal(house, forge(as_json(house.header()), deep)) is TokenRefusal.MALFORMED
    assert refusal(house, forge(deep, as_json(house.claims()))) is TokenRefusal.MALFORMED
    started = time.perf_counter()
    with pytest.raises(InvalidTokenError):
        house.tokens.verify("." * 50_000_000)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("audience", [Audience.CUSTOMER, Audience.PARTNER, Audience.EMPLOYEE])
def test_permissions_of_an_audience_that_has_none_are_not_issued_and_do_not_count(
    house: TokenHouse, audience: Audience
) -> None:
    for grant in (
        Grant("anna", audience, tool_permissions=("read:drafts",)),
        Grant("anna", audience, classifications=("confidential",)),
    ):
        with pytest.raises(TokenGrantError, match="Only an ai_agent"):
            house.tokens.issue(grant, HOUR)
    forged = house.signed(
        **{
            AUDIENCE_CLAIM: audience.value,
            "tool_permissions": ["read:drafts"],
            "classifications": ["c"],
            "roles": ["r"],
        }
    )
    principal = house.tokens.verify(forged).principal
    assert principal.tool_permissions == principal.classifications == frozenset()
    assert principal.roles == {"r"}


@pytest.mark.parametrize("audience", list(Audience))
def test_classified_material_is_opened_to_agents_alone_whatever_the_policy_says(
    house: TokenHouse, audience: Audience
) -> None:
    """A policy that opens it by role to whoever is cleared; only the token of an agent can say that its subject is."""
    lane = LanePolicy(
        *(VOCABULARY[name] for name in FILTERED_FIELDS),
        permission_grants={"p": {"data_classification": frozenset({"confidential"})}},
        role_grants={"r": frozenset({"p"})},
    )
    token = house.signed(
        **{AUDIENCE_CLAIM: audience.value, "classifications": ["confidential"], "roles": ["r"]}
    )
    principal = house.tokens.verify(token).principal
    classified = replace(OPEN, data_classification=DataClassification.CONFIDENTIAL)
    policy = AudiencePolicy(1, {audience: lane})
    assert visible(OPEN, principal, policy)
    assert visible(classified, principal, policy) is (audience is Audience.AI_AGENT)


def test_a_consent_counts_for_its_own_subject_until_it_ends(house: TokenHouse) -> None:
    now = int(time.time())

    def consents(*entries: tuple[str, int]) -> dict[str, object]:
        return {
            "high_risk_consents": [{"subject": whose, "expires_at": end} for whose, end in entries]
        }

    table: list[tuple[dict[str, object], bool, int]] = [
        (consents(), False, 630),
        (consents(("agent-7", now + 100)), True, 100),
        (consents(("agent-7", now + 9_000)), True, 630),
        (consents(("agent-7", now - 1)), False, 630),
        (consents(("agent-8", now + 100)), False, 630),
        (consents(("Agent-7", now + 100)), False, 630),
        (consents(("agent-8", now + 50), ("agent-7", now + 100)), True, 100),
        (consents(("agent-7", now + 200), ("agent-7", now + 100)), True, 100),
    ]
    for changed, counts, left in table:
        claims = house.claims(iat=now, nbf=now, exp=now + 600, **changed)
        principal = house.tokens.verify(forge(as_json(house.header()), as_json(claims))).principal
        assert principal.high_risk_consents == ({HIGH_RISK_CONSENT} if counts else set()), changed
        assert principal.expires_at == datetime.fromtimestamp(now + left, UTC), changed


def test_a_consent_is_issued_for_the_subject_of_the_token(house: TokenHouse) -> None:
    grant = Grant("anna", Audience.EMPLOYEE, high_risk_for=timedelta(minutes=5))
    found = house.tokens.verify(house.tokens.issue(grant, HOUR))
    assert found.principal.high_risk_consents == {HIGH_RISK_CONSENT}
    assert found.principal.expires_at == found.issued_at + timedelta(minutes=5)


@pytest.mark.parametrize(
    "grant",
    [
        Grant("", Audience.CUSTOMER),
        Grant("a\nb", Audience.CUSTOMER),
        Grant("a", Audience.CUSTOMER, roles=("",)),
        Grant("a", Audience.AI_AGENT, tool_permissions=tuple(f"p{n}" for n in range(101))),
        Grant("a", Audience.AI_AGENT, roles=tuple(f"{n:03}" + "r" * 190 for n in range(100))),
    ],
)
def test_nothing_is_issued_that_would_not_be_accepted(house: TokenHouse, grant: Grant) -> None:
    with pytest.raises(TokenGrantError):
        house.tokens.issue(grant, HOUR)


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(seconds=-1), timedelta(days=31)])
def test_no_token_is_issued_for_too_long_or_for_no_time(
    house: TokenHouse, lifetime: timedelta
) -> None:
    with pytest.raises(TokenGrantError, match="TOKEN_MAX_LIFETIME_S"):
        house.tokens.issue(AGENT, lifetime)


def test_a_new_key_signs_and_an_old_one_counts_until_it_is_retired(tmp_path: Path) -> None:
    settings = Settings(threadhouse_home=tmp_path)
    tokens = PrincipalTokens(settings)
    old = create_key(settings)
    first = tokens.issue(AGENT, HOUR)
    new = create_key(settings)
    second = tokens.issue(AGENT, HOUR)
    assert [tokens.verify(token).key_id for token in (first, second)] == [old.key_id, new.key_id]
    retire_key(settings, old.key_id)
    assert tokens.verify(second).key_id == new.key_id
    with pytest.raises(InvalidTokenError) as caught:
        tokens.verify(first)
    assert caught.value.reason is TokenRefusal.KEY


def test_without_any_key_no_token_is_accepted(tmp_path: Path, house: TokenHouse) -> None:
    nobody = PrincipalTokens(Settings(threadhouse_home=tmp_path))
    for token in (house.signed(), house.tokens.issue(AGENT, HOUR)):
        with pytest.raises(InvalidTokenError):
            nobody.verify(token)
    assert not home_key_file(tmp_path).exists()


def first_cells(heading: str) -> list[tuple[str, str]]:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^\| `(\w+)` \| *(\w+)?", section)


def test_the_page_lists_every_claim_and_which_are_required() -> None:
    listed = first_cells("What a token says")
    assert [name for name, required in listed if required == "yes"] == list(REQUIRED_CLAIMS)
    optional = [name for name, required in listed if required == "no"]
    assert optional == [*LIST_CLAIMS, CONSENTS_CLAIM]


def test_the_page_lists_every_reason() -> None:
    assert [name for name, _ in first_cells("Why a token is refused")] == list(TokenRefusal)
    page = (Path(__file__).resolve().parents[2] / "docs" / "tokens.md").read_text(encoding="utf-8")
    assert f"more than {MAX_TOKEN_CHARS:,} characters" in page


def test_every_reason_has_one_sentence() -> None:
    for reason in TokenRefusal:
        sentence = str(InvalidTokenError(reason))
        assert sentence.endswith(".")
        assert "\n" not in sentence
