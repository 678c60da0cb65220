"""Signed tokens: who asks, as a principal.

Belongs here: what a token must be and say, turning one into a `Principal`, issuing one.
Does not belong here: where keys are kept (stores.token_keys), what a role or a permission opens (the audience policy).

Signature, issuer, service, expiry and not-before are checked by PyJWT. Around it stands what PyJWT leaves open: which headers a
token may have, that a key is used with its own algorithm only, that no name appears twice, how long a token may live, and the
exact form of every claim that becomes a right. Whatever is not exactly right is refused, with a reason of a closed set.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import uuid4

import jwt
from jwt.exceptions import InvalidSubjectError

from threadhouse.retrieval.audience import HIGH_RISK_CONSENT
from threadhouse.retrieval.errors import InvalidTokenError, TokenGrantError, TokenRefusal
from threadhouse.retrieval.models import Audience, Json, Principal
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import TokenKey, TokenKeys, read_token_keys, strict_json

AUDIENCE_CLAIM = "threadhouse_audience"
"""Who reads. ``aud``, the registered claim, names the service that a token is for."""

CONSENTS_CLAIM = "high_risk_consents"
LIST_CLAIMS = ("roles", "task_scopes", "tool_permissions", "classifications")
AGENT_CLAIMS = ("tool_permissions", "classifications")
"""Lists that widen what an ai_agent may read; with any other audience they are not issued and do not count."""

REQUIRED_CLAIMS = ("iss", "aud", "sub", "iat", "nbf", "exp", AUDIENCE_CLAIM)

HEADER_NAMES = frozenset({"alg", "kid", "typ"})
"""Nothing else may be in a header: ``jku``, ``x5u``, ``jwk`` and the like say where to get a key from, ``crit`` asks for more."""

TOKEN_TYPES = ("JWT", "at+jwt")

MAX_TOKEN_CHARS = 8_192
"""What proxies let pass in one header, and several times a token with everything in it."""

MAX_LIST_ENTRIES = 100
MAX_WORD_CHARS = 200
"""Longer than any name of a subject, a role or a permission."""

MAX_INSTANT_S = 253_402_300_799
"""The last second of the year 9999, after which Python's calendar ends."""

_PARTS = 3
_CONSENT_FIELDS = frozenset({"subject", "expires_at"})

_REASONS: Sequence[tuple[type[jwt.PyJWTError], TokenRefusal]] = (
    (jwt.ExpiredSignatureError, TokenRefusal.EXPIRED),
    (jwt.ImmatureSignatureError, TokenRefusal.NOT_YET_VALID),
    (jwt.InvalidSignatureError, TokenRefusal.SIGNATURE),
    (jwt.InvalidAlgorithmError, TokenRefusal.ALGORITHM),
    (jwt.InvalidIssuerError, TokenRefusal.ISSUER),
    (jwt.InvalidAudienceError, TokenRefusal.SERVICE),
    (jwt.MissingRequiredClaimError, TokenRefusal.CLAIM_MISSING),
    (jwt.InvalidIssuedAtError, TokenRefusal.CLAIM_WRONG),
    (InvalidSubjectError, TokenRefusal.CLAIM_WRONG),
    (jwt.InvalidKeyError, TokenRefusal.KEY),
    (jwt.PyJWTError, TokenRefusal.MALFORMED),
)
"""Subclasses before what they are subclasses of."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What holds for every token. ``service`` is the value of ``aud``."""

    issuer: str
    service: str
    leeway_s: int
    max_lifetime_s: int

    @classmethod
    def of(cls, settings: Settings) -> TokenRules:
        """The rules of these settings."""
        return cls(
            settings.token_issuer,
            settings.token_audience,
            settings.token_leeway_s,
            settings.token_max_lifetime_s,
        )


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token that holds. ``principal.expires_at`` is when it has to be looked at again, which may be before ``expires_at``."""

    key_id: str
    issued_at: datetime
    expires_at: datetime
    principal: Principal


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token is to say. ``high_risk_for`` is how long the subject's consent to high-risk material holds."""

    subject: str
    audience: Audience
    roles: tuple[str, ...] = ()
    task_scopes: tuple[str, ...] = ()
    tool_permissions: tuple[str, ...] = ()
    classifications: tuple[str, ...] = ()
    high_risk_for: timedelta | None = None


class PrincipalTokens:
    """Turns tokens into principals, by the keys and rules of some settings. Keys are read anew for each token."""

    def __init__(self, settings: Settings, keys: Callable[[], TokenKeys] | None = None) -> None:
        self._rules = TokenRules.of(settings)
        self._keys = keys or (lambda: read_token_keys(settings))

    @property
    def rules(self) -> TokenRules:
        """What holds for every token."""
        return self._rules

    def verify(self, token: str) -> VerifiedToken:
        """The token, when everything about it is right at this moment.

        Raises:
            InvalidTokenError: Something is not.
            ConfigurationError: The keys cannot be read.
        """
        return verify_token(token, self._keys(), self._rules)

    def issue(self, grant: Grant, lifetime: timedelta, key_id: str | None = None) -> str:
        """A token that says ``grant``, signed with the newest key or the one that is named.

        Raises:
            TokenGrantError: No token can say that.
            ConfigurationError: No key can sign, or the keys cannot be read.
        """
        return issue_token(grant, self._keys().signing_key(key_id), self._rules, lifetime)


def verify_token(token: str, keys: TokenKeys, rules: TokenRules) -> VerifiedToken:
    """The token, when everything about it is right at this moment.

    Raises:
        InvalidTokenError: Something is not.
    """
    header, payload = _read_parts(token)
    key = _key_for(header, keys)
    try:
        jwt.decode(
            token,
            key.material,
            # Of the key, never of the header: whoever sends a token does not choose how it is checked.
            algorithms=[key.algorithm],
            audience=rules.service,
            issuer=rules.issuer,
            leeway=rules.leeway_s,
            options={
                "require": list(REQUIRED_CLAIMS),
                "strict_aud": True,
                "enforce_minimum_key_length": True,
            },
        )
    except jwt.PyJWTError as error:
        # Not chained: what PyJWT says may quote the token.
        raise InvalidTokenError(
            next(reason for kind, reason in _REASONS if isinstance(error, kind))
        ) from None
    # What was signed is read once more, because a parser that keeps the last of two equal names sees another token.
    try:
        return _verified(_object(payload), key.key_id, rules)
    except ValueError:
        raise InvalidTokenError(TokenRefusal.CLAIM_WRONG) from None


def issue_token(grant: Grant, key: TokenKey, rules: TokenRules, lifetime: timedelta) -> str:
    """A token that says ``grant`` and holds from now on for ``lifetime``.

    Raises:
        TokenGrantError: No token can say that.
    """
    lifetime_s = int(lifetime.total_seconds())
    if not 1 <= lifetime_s <= rules.max_lifetime_s:
        message = f"A token lives from 1 second to {rules.max_lifetime_s:,} seconds (TOKEN_MAX_LIFETIME_S); choose another."
        raise TokenGrantError(message)
    given = [name for name in AGENT_CLAIMS if getattr(grant, name)]
    if grant.audience is not Audience.AI_AGENT and given:
        what = " and ".join(name.replace("_", " ") for name in given)
        message = (
            f"Only an ai_agent can have {what}; leave them out, or issue a token for an ai_agent."
        )
        raise TokenGrantError(message)
    now = int(datetime.now(UTC).timestamp())
    claims: dict[str, Json] = {
        "iss": rules.issuer,
        "aud": rules.service,
        "sub": grant.subject,
        "iat": now,
        "nbf": now,
        "exp": now + lifetime_s,
        "jti": str(uuid4()),
        AUDIENCE_CLAIM: grant.audience.value,
    }
    for name in LIST_CLAIMS:
        entries: tuple[str, ...] = getattr(grant, name)
        if entries:
            claims[name] = list(dict.fromkeys(entries))
    if grant.high_risk_for is not None:
        until = now + int(grant.high_risk_for.total_seconds())
        claims[CONSENTS_CLAIM] = [{"subject": grant.subject, "expires_at": until}]
    try:
        _verified(claims, key.key_id, rules)
    except ValueError as error:
        message = f"No token can say this: {error}."
        raise TokenGrantError(message) from None
    token = jwt.encode(claims, key.material, key.algorithm, headers={"kid": key.key_id})
    if len(token) > MAX_TOKEN_CHARS:
        message = (
            f"The token would have more than {MAX_TOKEN_CHARS:,} characters; grant less at once."
        )
        raise TokenGrantError(message)
    return token


def _read_parts(token: str) -> tuple[dict[str, object], bytes]:
    """Header and payload as they stand in the token, of which nothing is proven yet."""
    if len(token) > MAX_TOKEN_CHARS:
        raise InvalidTokenError(TokenRefusal.TOO_LARGE)
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise InvalidTokenError(TokenRefusal.MALFORMED)
    try:
        header, payload, _ = (_decoded(part) for part in parts)
        return _object(header), payload
    except ValueError:
        raise InvalidTokenError(TokenRefusal.MALFORMED) from None


def _key_for(header: Mapping[str, object], keys: TokenKeys) -> TokenKey:
    # A tuple, because what stands in the header may be anything, also what no set can be asked for.
    if not header.keys() <= HEADER_NAMES or header.get("typ", "JWT") not in TOKEN_TYPES:
        raise InvalidTokenError(TokenRefusal.HEADER)
    key_id = header.get("kid")
    key = keys.find(key_id) if isinstance(key_id, str) else None
    if key is None:
        raise InvalidTokenError(TokenRefusal.KEY)
    return key


def _decoded(part: str) -> bytes:
    """A part of a token. Of the spellings that mean the same bytes exactly one is right, so no byte can be changed unnoticed."""
    found = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != part:
        message = "another spelling of the same bytes"
        raise ValueError(message)
    return found


def _object(text: bytes) -> dict[str, object]:
    found = strict_json(text.decode("utf-8"))
    if not isinstance(found, dict):
        message = "it is no object"
        raise ValueError(message)
    return cast("dict[str, object]", found)


def _verified(claims: Mapping[str, object], key_id: str, rules: TokenRules) -> VerifiedToken:
    """Rights of claims whose signature, issuer, service and times hold.

    Raises:
        ValueError: A claim has a form or a word that it cannot have; the message names the claim.
        InvalidTokenError: It lives too long.
    """
    subject = _word(claims["sub"], "the subject")
    issued_at, not_before, expires_at = (
        _seconds(claims[name], name) for name in ("iat", "nbf", "exp")
    )
    if expires_at - min(issued_at, not_before) > rules.max_lifetime_s:
        raise InvalidTokenError(TokenRefusal.LIFETIME)
    audience = claims[AUDIENCE_CLAIM]
    if not isinstance(audience, str) or audience not in set(Audience):
        message = "the audience is not one of the four"
        raise ValueError(message)
    words = {name: _words(claims.get(name, []), name) for name in LIST_CLAIMS}
    if audience != Audience.AI_AGENT:
        words |= dict.fromkeys(AGENT_CLAIMS, frozenset[str]())
    ends = _consent_ends(claims.get(CONSENTS_CLAIM, []), subject)
    look_again = min([expires_at + rules.leeway_s, *ends])
    return VerifiedToken(
        key_id=key_id,
        issued_at=datetime.fromtimestamp(issued_at, UTC),
        expires_at=datetime.fromtimestamp(expires_at, UTC),
        principal=Principal(
            subject=subject,
            audience=Audience(audience),
            roles=words["roles"],
            task_scopes=words["task_scopes"],
            tool_permissions=words["tool_permissions"],
            classifications=words["classifications"],
            high_risk_consents=frozenset({HIGH_RISK_CONSENT} if ends else ()),
            expires_at=datetime.fromtimestamp(look_again, UTC),
        ),
    )


def _consent_ends(entries: object, subject: str) -> list[int]:
    """Ends of the consents that count now: the token's own subject gave them, and they have not run out."""
    now = datetime.now(UTC).timestamp()
    ends: list[int] = []
    for entry in _entries(entries, CONSENTS_CLAIM):
        if (
            not isinstance(entry, dict)
            or cast("dict[str, object]", entry).keys() != _CONSENT_FIELDS
        ):
            message = f"an entry of {CONSENTS_CLAIM} is not a subject and its expires_at"
            raise ValueError(message)
        consent = cast("dict[str, object]", entry)
        whose = _word(consent["subject"], "the subject of a consent")
        end = _seconds(consent["expires_at"], "expires_at of a consent")
        if whose == subject and end > now:
            ends.append(end)
    return ends


def _words(entries: object, name: str) -> frozenset[str]:
    return frozenset(_word(entry, f"an entry of {name}") for entry in _entries(entries, name))


def _entries(entries: object, name: str) -> Iterable[object]:
    if not isinstance(entries, list) or len(cast("list[object]", entries)) > MAX_LIST_ENTRIES:
        message = f"{name} is no list of at most {MAX_LIST_ENTRIES}"
        raise ValueError(message)
    return cast("list[object]", entries)


def _word(value: object, what: str) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= MAX_WORD_CHARS
        or not value.isprintable()
    ):
        message = f"{what} is no text of 1 to {MAX_WORD_CHARS} visible characters"
        raise ValueError(message)
    if value != value.strip():
        message = f"{what} begins or ends with a space"
        raise ValueError(message)
    return value


def _seconds(value: object, name: str) -> int:
    # True is the int 1 to Python.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INSTANT_S:
        message = f"{name} is no whole number of seconds since 1970"
        raise ValueError(message)
    return value
