"""Tokens and keys on the command line: what is shown, what is refused, and what never comes out."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from threadhouse.pipelines import cli
from threadhouse.pipelines.secret_masking import mask
from threadhouse.stores.settings import Settings
from threadhouse.stores.token_keys import home_key_file

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a home of its own: exit code, stdout, stderr. No secret of a key is ever in either."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("THREADHOUSE_HOME", str(tmp_path / "home"))

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        file = home_key_file(tmp_path / "home")
        secrets = (
            [jwk["d"] for jwk in json.loads(file.read_text())["keys"]] if file.exists() else []
        )
        assert not any(secret in said.out + said.err for secret in secrets)
        assert said.err.count("\n") <= 1
        return code, said.out, said.err

    return run


AGENT = ("--subject", "bot", "--audience", "ai_agent")


def test_a_newcomer_is_told_to_make_a_key_first(run: Run) -> None:
    code, out, err = run("token", "issue", *AGENT)
    assert (code, out) == (cli.EXIT_FAILED, "")
    assert "threadhouse token keys create makes one" in err


def test_a_token_is_issued_into_a_file_of_its_owner_and_shown_without_itself(
    run: Run, tmp_path: Path
) -> None:
    run("token", "keys", "create")
    file = tmp_path / "bot.token"
    options = ("--role", "reviewer", "--permission", "read:drafts", "--consent-high-risk", "30m")
    code, out, _ = run("token", "issue", *AGENT, *options, "--lifetime", "1h", "--out", file)
    token = file.read_text().strip()
    assert code == 0
    assert token not in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    code, out, _ = run("token", "show", "--token-file", file, "--json")
    shown = json.loads(out)
    assert token not in out
    assert (shown["subject"], shown["audience"], shown["high_risk"]) == ("bot", "ai_agent", True)
    assert (shown["roles"], shown["tool_permissions"]) == (["reviewer"], ["read:drafts"])
    code, out, _ = run("token", "show", "--token-file", file)
    assert "read:drafts" in out
    assert token not in out


def test_without_a_file_the_token_alone_is_on_stdout(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("token", "keys", "create")
    _, out, _ = run("token", "issue", *AGENT)
    assert out.count("\n") == 1
    monkeypatch.setenv("THREADHOUSE_TOKEN", out)
    assert run("token", "show")[0] == 0
    code, out, _ = run("token", "issue", *AGENT, "--json")
    assert (code, json.loads(out)["audience"]) == (0, "ai_agent")


def test_a_token_in_the_environment_is_masked_wherever_it_is_quoted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("token", "keys", "create")
    _, token, _ = run("token", "issue", *AGENT)
    monkeypatch.setenv("THREADHOUSE_TOKEN", token.strip())
    assert mask(f"a library said {token}") == "a library said ***\n"


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"])
def test_a_key_to_the_lake_is_masked_wherever_it_is_quoted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "hunter2")
    assert mask("a library said hunter2") == "a library said ***"


def test_keys_are_rotated(run: Run, tmp_path: Path) -> None:
    assert "There is no key yet" in run("token", "keys", "list")[1]
    run("token", "keys", "create")
    file = tmp_path / "old.token"
    run("token", "issue", *AGENT, "--out", file)
    run("token", "keys", "create")
    old, new = json.loads(run("token", "keys", "list", "--json")[1])
    assert (old["use"], new["use"], new["algorithm"]) == ("verifies", "signs", "EdDSA")
    assert run("token", "show", "--token-file", file)[0] == 0
    assert "is deleted" in run("token", "keys", "retire", old["key_id"])[1]
    code, out, err = run("token", "show", "--token-file", file)
    assert (code, out) == (cli.EXIT_FAILED, "")
    assert "names no key that is trusted here" in err
    assert run("token", "keys", "retire", old["key_id"])[0] == cli.EXIT_FAILED


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("--subject", "a", "--audience", "operator"), cli.EXIT_USAGE, "'operator' is not one of"),
        (("--subject", "a"), cli.EXIT_USAGE, "--audience"),
        (("--audience", "customer"), cli.EXIT_USAGE, "--subject"),
        ((*AGENT, "--lifetime", "forever"), cli.EXIT_USAGE, "such as 30m"),
        ((*AGENT, "--lifetime", "0h"), cli.EXIT_USAGE, "such as 30m"),
        ((*AGENT, "--lifetime", "999999999d"), cli.EXIT_FAILED, "TOKEN_MAX_LIFETIME_S"),
        ((*AGENT, "--consent-high-risk", "999999999d"), cli.EXIT_FAILED, "expires_at"),
        ((*AGENT, "--key", "nobody"), cli.EXIT_FAILED, "'nobody'"),
        ((*AGENT, "--role", ""), cli.EXIT_FAILED, "an entry of roles"),
        ((*AGENT, "--out", "/dev/null/x"), cli.EXIT_FAILED, "name another file"),
        (("--subject", "a", "--audience", "customer", "--permission", "p"), cli.EXIT_FAILED, "Only an ai_agent"),
    ],
)  # fmt: skip
def test_what_cannot_be_issued_is_refused_in_one_sentence(
    run: Run, options: tuple[str, ...], code: int, reason: str
) -> None:
    run("token", "keys", "create")
    found, out, err = run("token", "issue", *options)
    assert (found, out) == (code, "")
    assert reason in err


@pytest.mark.parametrize("content", [b"", b"no token", b"\xff\xfe", b"x" * 100_000])
def test_a_file_without_a_token_is_refused_and_not_quoted(
    run: Run, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    code, out, err = run("token", "show", "--token-file", file)
    assert (code, out) == (cli.EXIT_FAILED, "")
    assert "no token" not in err
    assert len(err) < 300
