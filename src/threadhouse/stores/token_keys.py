"""The keys that sign and verify tokens: a JWK set in a file.

Belongs here: reading the file strictly, making a key, retiring one, and never letting a secret into a message or a repr.
Does not belong here: tokens themselves and what they say (serving.tokens).

Each key is bound to one algorithm when it is read: an Ed25519 key verifies EdDSA and nothing else, a secret HS256 and nothing
else. The file is read for every token, so a key that was added or retired counts from the next call on.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from filelock import FileLock
from jwt.algorithms import OKPAlgorithm

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.stores.settings import Settings

KEYS_FOLDER = "keys"
KEY_FILE = "token-keys.json"

MAX_KEY_FILE_BYTES = 1_000_000
"""Thousands of keys; a larger file is not a key file."""

MAX_KEY_ID_CHARS = 100

MIN_SECRET_BYTES = 32
"""RFC 7518 §3.2: a secret for HS256 has at least as many bits as the hash."""


class KeyAlgorithm(StrEnum):
    """The two algorithms, by the names that a token's header uses."""

    EDDSA = "EdDSA"
    HS256 = "HS256"


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One key. ``can_sign`` is False for a public key; ``material`` is never shown."""

    key_id: str
    algorithm: KeyAlgorithm
    can_sign: bool
    created_at: datetime | None
    material: jwt.PyJWK = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """The keys in force, oldest first, and the file that they are in."""

    path: Path
    keys: tuple[TokenKey, ...]

    def find(self, key_id: str) -> TokenKey | None:
        """The key of this id."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    def signing_key(self, key_id: str | None = None) -> TokenKey:
        """The key to sign with: the one that is named, else the last that can.

        Raises:
            ConfigurationError: There is none.
        """
        able = [key for key in self.keys if key.can_sign and key_id in (None, key.key_id)]
        if able:
            return able[-1]
        if key_id is not None:
            message = f"No key called {key_id!r} can sign here; threadhouse token keys list shows those that can."
        elif self.keys:
            message = f"The keys in {self.path} are public and can only verify; issue tokens where the private key is."
        else:
            message = "There is no key to sign with yet; threadhouse token keys create makes one."
        raise ConfigurationError(message)


def home_key_file(home: Path) -> Path:
    """The file that `create_key` and `retire_key` keep."""
    return home / KEYS_FOLDER / KEY_FILE


def read_token_keys(settings: Settings) -> TokenKeys:
    """The keys of these settings: those of TOKEN_KEYS, else of the home, which may be none.

    Raises:
        ConfigurationError: The file cannot be read, is no JWK set, or others can read the secrets of the home.
    """
    if settings.token_keys is not None:
        return TokenKeys(settings.token_keys, _read(settings.token_keys))
    path = home_key_file(settings.home)
    if not path.exists():
        return TokenKeys(path, ())
    if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"Others can read the signing keys; chmod 600 {path}, and make new keys if somebody may have."
        raise ConfigurationError(message)
    return TokenKeys(path, _read(path))


def create_key(settings: Settings) -> TokenKey:
    """Make an Ed25519 key pair, which signs from now on; the older ones go on verifying.

    Raises:
        ConfigurationError: The keys are kept elsewhere (TOKEN_KEYS).
    """
    _require_keys_of_home(settings)
    now = datetime.now(UTC).replace(microsecond=0)
    jwk: dict[str, Any] = {
        **OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate(), as_dict=True),
        "alg": KeyAlgorithm.EDDSA.value,
        "use": "sig",
        "kid": f"{now:%Y%m%d}-{secrets.token_hex(4)}",
        "created_at": now.isoformat(),
    }
    with _locked(settings):
        path = home_key_file(settings.home)
        write_private_file(path, _dump([*_raw_keys(path), jwk]))
    return _key_of(jwk, path)


def retire_key(settings: Settings, key_id: str) -> TokenKey:
    """Delete a key: whatever it signed is refused from the next call on.

    Raises:
        ConfigurationError: There is no such key, or the keys are kept elsewhere (TOKEN_KEYS).
    """
    _require_keys_of_home(settings)
    with _locked(settings):
        retired = read_token_keys(settings).find(key_id)
        if retired is None:
            message = f"There is no key called {key_id!r}; threadhouse token keys list shows all."
            raise ConfigurationError(message)
        path = home_key_file(settings.home)
        write_private_file(path, _dump([jwk for jwk in _raw_keys(path) if jwk["kid"] != key_id]))
    return retired


def write_private_file(path: Path, text: str) -> None:
    """Put ``text`` in the place of a file that only its owner may read; readers see all of the old or all of the new."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def strict_json(text: str | bytes) -> object:
    """JSON in which every name appears once and every number is one.

    Raises:
        ValueError: It is not.
    """

    def once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            message = "a name appears twice"
            raise ValueError(message)
        return found

    def refuse(_constant: str) -> object:
        message = "NaN and Infinity are no numbers"
        raise ValueError(message)

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except RecursionError:
        message = "it is nested too deeply"
        raise ValueError(message) from None


def _require_keys_of_home(settings: Settings) -> None:
    if settings.token_keys is not None:
        message = "TOKEN_KEYS names the keys, and whoever wrote that file keeps them; unset it to keep keys in the home."
        raise ConfigurationError(message)


def _locked(settings: Settings) -> FileLock:
    folder = home_key_file(settings.home).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(folder / ".lock", timeout=settings.lock_timeout_s, mode=0o600)


def _read(path: Path) -> tuple[TokenKey, ...]:
    keys = tuple(_key_of(jwk, path) for jwk in _raw_keys(path))
    if len({key.key_id for key in keys}) != len(keys):
        message = f"Two keys in {path} have the same kid; give each its own."
        raise ConfigurationError(message)
    return keys


def _raw_keys(path: Path) -> list[dict[str, Any]]:
    if path.name == KEY_FILE and not path.exists():
        return []
    # Nothing that a parser or the system says is chained or repeated: it may quote the file.
    try:
        if not path.is_file() or path.stat().st_size > MAX_KEY_FILE_BYTES:
            raise OSError
        document = strict_json(path.read_bytes())
    except OSError:
        message = f"The token keys in {path} cannot be read; correct TOKEN_KEYS or the file's owner and size."
        raise ConfigurationError(message) from None
    except ValueError:
        document = None
    keys = cast("Mapping[str, object]", document).get("keys") if isinstance(document, dict) else 0
    if not isinstance(keys, list) or not all(
        isinstance(jwk, dict) for jwk in cast("list[object]", keys)
    ):
        message = f'{path} is no JWK set; it holds {{"keys": [...]}}, each key an object.'
        raise ConfigurationError(message)
    return cast("list[dict[str, Any]]", keys)


def _key_of(jwk: Mapping[str, Any], path: Path) -> TokenKey:
    key_id = jwk.get("kid")
    if not isinstance(key_id, str) or not key_id or len(key_id) > MAX_KEY_ID_CHARS:
        message = (
            f"A key in {path} has no kid; name each, so that tokens can say which one signed them."
        )
        raise ConfigurationError(message)
    wrong = ConfigurationError(
        f"Key {key_id!r} in {path} is no Ed25519 key for EdDSA and no secret of {MIN_SECRET_BYTES} bytes or more for HS256; "
        "replace it."
    )
    match (jwk.get("kty"), jwk.get("crv")):
        case ("OKP", "Ed25519"):
            algorithm, parts, can_sign = (
                KeyAlgorithm.EDDSA,
                {"x"} | ({"d"} & jwk.keys()),
                "d" in jwk,
            )
        case ("oct", None):
            algorithm, parts, can_sign = KeyAlgorithm.HS256, {"k"}, True
        case _:
            raise wrong
    if jwk.get("alg", algorithm) != algorithm or jwk.get("use", "sig") != "sig":
        raise wrong
    if not all(isinstance(jwk.get(name), str) for name in parts):
        raise wrong
    try:
        material = jwt.PyJWK(dict(jwk), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise wrong from None
    if algorithm is KeyAlgorithm.HS256 and len(cast("bytes", material.key)) < MIN_SECRET_BYTES:
        raise wrong
    return TokenKey(key_id, algorithm, can_sign, _instant(jwk.get("created_at")), material)


def _instant(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _dump(keys: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"keys": keys}, indent=1) + "\n"
