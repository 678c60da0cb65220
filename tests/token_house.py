"""Keys and tokens for tests: made in a home of their own, or forged by hand.

Belongs here: making them. Does not belong here: expectations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadhouse.serving.tokens import AUDIENCE_CLAIM, PrincipalTokens
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import TokenKey, create_key, home_key_file

SECRET = b"a secret of at least 32 bytes, of which nobody is told"


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def forge(header: bytes, payload: bytes, secret: bytes = SECRET) -> str:
    """A token signed with HS256, whatever the header says."""
    signed = f"{encode(header)}.{encode(payload)}"
    return f"{signed}.{encode(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


@dataclass(frozen=True)
class TokenHouse:
    """A home whose key set holds an Ed25519 key pair and the secret ``shared``."""

    settings: Settings
    pair: TokenKey

    @classmethod
    def build(cls, home: Path) -> TokenHouse:
        settings = Settings(threadhouse_home=home)
        pair = create_key(settings)
        path = home_key_file(home)
        document = json.loads(path.read_text())
        document["keys"].append(
            {"kty": "oct", "kid": "shared", "alg": "HS256", "k": encode(SECRET)}
        )
        path.write_text(json.dumps(document))
        return cls(settings, pair)

    @property
    def tokens(self) -> PrincipalTokens:
        return PrincipalTokens(self.settings)

    @property
    def public_bytes(self) -> bytes:
        """The public key as everybody may know it."""
        jwk = json.loads(home_key_file(self.settings.home).read_text())["keys"][0]
        return base64.urlsafe_b64decode(jwk["x"] + "=")

    def claims(self, **changed: object) -> dict[str, Any]:
        """Claims that hold, with some changed; a claim that is changed to ... is left out."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": "threadhouse",
            "aud": "threadhouse",
            "sub": "agent-7",
            "iat": now,
            "nbf": now,
            "exp": now + 600,
            AUDIENCE_CLAIM: "ai_agent",
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not ...}

    def header(self, **changed: object) -> dict[str, Any]:
        header: dict[str, Any] = {"alg": "HS256", "kid": "shared", "typ": "JWT", **changed}
        return {name: value for name, value in header.items() if value is not ...}

    def signed(self, **changed: object) -> str:
        """A token with claims that hold but for some."""
        return forge(as_json(self.header()), as_json(self.claims(**changed)))
