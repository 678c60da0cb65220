"""The key file: private, strict, never half written, and its secrets are in no message and no repr."""

from __future__ import annotations

import json
import os
import stat
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import (
    KeyAlgorithm,
    create_key,
    home_key_file,
    read_token_keys,
    retire_key,
)
from token_house import SECRET, encode


def key_set(tmp_path: Path, *keys: object) -> Settings:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return Settings(threadhouse_home=tmp_path / "home", token_keys=path)


def refusal(settings: Settings) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_token_keys(settings)
    story = "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert not any(secret in story for secret in ("hunter", SECRET.decode(), encode(SECRET)))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def oct_key(**changed: object) -> dict[str, object]:
    key = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": encode(SECRET), **changed}
    return {name: value for name, value in key.items() if value is not ...}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(threadhouse_home=tmp_path)


def test_a_key_pair_is_for_its_owner_alone(settings: Settings) -> None:
    before = os.umask(0)
    try:
        create_key(settings)
    finally:
        os.umask(before)
    path = home_key_file(settings.home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {each.name for each in path.parent.iterdir()} <= {path.name, ".lock"}


def test_keys_that_others_can_read_are_not_used(settings: Settings) -> None:
    create_key(settings)
    for mode in (0o640, 0o604, 0o602):
        home_key_file(settings.home).chmod(mode)
        assert "chmod 600" in refusal(settings)


def test_no_secret_is_in_a_repr(settings: Settings, tmp_path: Path) -> None:
    created = create_key(settings)
    jwk: dict[str, Any] = json.loads(home_key_file(settings.home).read_text())["keys"][0]
    shared = read_token_keys(key_set(tmp_path, oct_key()))
    shown = f"{created!r} {created} {read_token_keys(settings)!r} {shared!r} {shared}"
    assert jwk["d"] not in shown
    assert encode(SECRET) not in shown
    assert SECRET.decode() not in shown


def test_the_newest_key_signs_unless_another_is_named(settings: Settings) -> None:
    first, second = create_key(settings), create_key(settings)
    keys = read_token_keys(settings)
    assert keys.keys == (first, second)
    assert keys.signing_key() == second
    assert keys.signing_key(first.key_id) == first
    with pytest.raises(ConfigurationError, match="nobody"):
        keys.signing_key("nobody")


def test_a_retired_key_is_gone_from_the_file(settings: Settings) -> None:
    kept, retired = create_key(settings), create_key(settings)
    assert retire_key(settings, retired.key_id) == retired
    assert read_token_keys(settings).keys == (kept,)
    assert retired.key_id not in home_key_file(settings.home).read_text()
    with pytest.raises(ConfigurationError, match="no key called"):
        retire_key(settings, retired.key_id)


def test_keys_that_are_made_at_once_are_all_kept_and_readers_see_whole_files(
    settings: Settings,
) -> None:
    create_key(settings)
    made: list[str] = []
    read: list[int] = []
    done = threading.Event()

    def make() -> None:
        made.extend(create_key(settings).key_id for _ in range(5))

    def look() -> None:
        while not done.is_set():
            read.append(len(read_token_keys(settings).keys))

    reader = threading.Thread(target=look)
    writers = [threading.Thread(target=make) for _ in range(2)]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert {key.key_id for key in read_token_keys(settings).keys} >= set(made)
    assert len(made) == 10
    assert read == sorted(read)
    assert len(read) > 5


def test_a_set_from_outside_is_read_and_never_written(settings: Settings, tmp_path: Path) -> None:
    create_key(settings)
    jwk = json.loads(home_key_file(settings.home).read_text())["keys"][0]
    public = {name: value for name, value in jwk.items() if name != "d"}
    outside = key_set(tmp_path, public, oct_key(alg=...))
    keys = read_token_keys(outside).keys
    assert [(key.algorithm, key.can_sign) for key in keys] == [
        (KeyAlgorithm.EDDSA, False),
        (KeyAlgorithm.HS256, True),
    ]
    for change in (lambda: create_key(outside), lambda: retire_key(outside, "shared")):
        with pytest.raises(ConfigurationError, match="TOKEN_KEYS"):
            change()
    with pytest.raises(ConfigurationError, match="can only verify"):
        read_token_keys(key_set(tmp_path, public)).signing_key()


@pytest.mark.parametrize(
    "text",
    [
        "", "hunter", "[]", "{}", '{"keys": {}}', '{"keys": ["hunter"]}', '{"keys": [], "keys": []}', "[" * 100_000,
        '{"keys": [{"kid": "a", "kid": "b", "kty": "oct", "k": "hunter"}]}',
    ],
)  # fmt: skip
def test_what_is_no_key_set_is_refused(tmp_path: Path, text: str) -> None:
    settings = key_set(tmp_path)
    assert settings.token_keys is not None
    settings.token_keys.write_text(text)
    assert "no JWK set" in refusal(settings)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    large = tmp_path / "large"
    large.write_text(" " * 1_000_001)
    for path in (tmp_path / "absent", tmp_path, fifo, large):
        assert "TOKEN_KEYS" in refusal(Settings(threadhouse_home=tmp_path, token_keys=path))


@pytest.mark.parametrize(
    "key",
    [
        oct_key(k="aHVudGVy"),
        oct_key(k=...),
        oct_key(k=7),
        oct_key(k="hunter!"),
        oct_key(alg="HS512"),
        oct_key(alg="EdDSA"),
        oct_key(alg="none"),
        oct_key(alg=["HS256"]),
        oct_key(use="enc"),
        oct_key(crv="Ed25519"),
        {"kty": "OKP", "crv": "Ed25519", "kid": "a"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "aHVudGVy"},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": encode(b"x" * 32), "d": encode(b"hunter" * 5 + b"ab")},
        {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": encode(b"x" * 32), "alg": "HS256"},
        {"kty": "OKP", "crv": "Ed448", "kid": "a", "x": encode(b"x" * 57)},
        {"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "kid": "a", "x": encode(b"x" * 32), "y": encode(b"y" * 32)},
        {"kty": ["oct"], "kid": "a"},
        {"kid": "a"},
    ],
)  # fmt: skip
def test_a_key_of_another_kind_or_for_another_algorithm_is_refused(
    tmp_path: Path, key: dict[str, object]
) -> None:
    assert f"Key {key['kid']!r}" in refusal(key_set(tmp_path, key))


@pytest.mark.parametrize("key_id", [..., "", 7, ["a"], "a" * 101])
def test_a_key_without_a_name_is_refused(tmp_path: Path, key_id: object) -> None:
    assert "has no kid" in refusal(key_set(tmp_path, oct_key(kid=key_id)))


def test_two_keys_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "the same kid" in refusal(key_set(tmp_path, oct_key(), oct_key()))
