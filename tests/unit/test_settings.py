"""The environment is read once, checked, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.stores.settings import Settings

VARIABLES = sorted(name.upper() for name in Settings.model_fields)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_nothing_set_means_the_embedded_stores_in_the_checkout() -> None:
    settings = Settings.from_environment()
    checkout = Path(__file__).resolve().parents[2]
    assert settings.home == checkout / ".threadhouse"
    assert (settings.database_url, settings.qdrant_url, settings.embedding_model) == (
        None,
        None,
        None,
    )
    assert settings.zone.key == "Asia/Ho_Chi_Minh"


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "QDRANT_URL", "EMBEDDING_THREADS", "THREADHOUSE_TZ"]
)
def test_an_empty_variable_counts_as_not_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unset = Settings.from_environment()
    monkeypatch.setenv(name, "")
    assert Settings.from_environment() == unset


def test_a_relative_home_does_not_follow_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THREADHOUSE_HOME", "data")
    settings = Settings.from_environment()
    monkeypatch.chdir("/")
    assert settings.home == tmp_path / "data"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("THREADHOUSE_TZ", "Saigon"),
        ("THREADHOUSE_TZ", "../../etc/passwd"),
        ("THREADHOUSE_TZ", "/etc/localtime"),
        ("THREADHOUSE_TZ", "Asia"),
        ("DATABASE_URL", "mysql://user:hunter2@host/db"),
        ("DATABASE_URL", "postgresql://user:hunter2@host:port:/db?bad"),
        ("DATABASE_URL", "postgresql://user:some@hunter2@host:5432/db"),
        ("DATABASE_URL", "postgresql://user:some/hunter2@host/db"),
        ("DATABASE_URL", "postgresql://user:12/hunter2@host/db"),
        ("THREADHOUSE_HOME", "~nobody-of-this-name/hub"),
        ("QDRANT_URL", "http://localhost:99999"),
        ("QDRANT_URL", "localhost:6333"),
        ("QDRANT_URL", "http://user:hunter2@localhost:6333"),
        ("EMBEDDING_THREADS", "0"),
        ("EMBEDDING_THREADS", "many"),
        ("LOCK_TIMEOUT_S", "-1"),
        ("LOCK_TIMEOUT_S", "nan"),
        ("SEARCH_RERANK_ENABLED", "perhaps"),
    ],
)
def test_a_bad_value_is_one_sentence_that_names_the_variable_and_not_the_value(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_environment()
    message = str(caught.value)
    assert message.startswith(f"{name} cannot be used: ")
    assert "\n" not in message
    assert "hunter2" not in message
    # No cause: a traceback that is logged would show the value through it.
    assert caught.value.__cause__ is None


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@host/db")
    monkeypatch.setenv("QDRANT_API_KEY", "hunter2")
    settings = Settings.from_environment()
    assert (
        "hunter2"
        not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    )


def test_settings_cannot_be_changed() -> None:
    settings = Settings.from_environment()
    with pytest.raises(ValidationError):
        settings.threadhouse_tz = "UTC"
