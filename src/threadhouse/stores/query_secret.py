"""The secret behind the keys of questions.

Belongs here: finding it, or making it once. Does not belong here: what the keys are for (retrieval.query_keeping).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from filelock import FileLock

from threadhouse.retrieval.query_keeping import QuestionKeeper
from threadhouse.stores.token_keys import KEYS_FOLDER, write_private_file

if TYPE_CHECKING:
    from pathlib import Path

    from threadhouse.stores.settings import Settings

KEY_FILE: Final = "query-key.secret"

SECRET_BYTES: Final = 32
"""As long as the hash: more would be hashed down to it, less would weaken it (RFC 2104 §3)."""


def open_question_keeper(settings: Settings) -> QuestionKeeper:
    """What these settings keep of questions.

    The secret is that of ``QUERY_KEY_SECRET``, which machines that share a database must share, or one that is made once below
    the home. With another secret equal questions before and after have other keys: recurrence starts anew, nothing else changes.
    """
    if settings.query_key_secret is not None:
        secret = settings.query_key_secret.get_secret_value().encode()
    else:
        secret = _secret_of_home(settings.home)
    return QuestionKeeper(settings.query_text, secret)


def _secret_of_home(home: Path) -> bytes:
    folder = home / KEYS_FOLDER
    path = folder / KEY_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(folder / f".{KEY_FILE}.lock"):
            if not path.exists():
                write_private_file(path, secrets.token_hex(SECRET_BYTES))
    return path.read_bytes()
