"""Text that people and logs see, without the secrets of the environment.

Belongs here: which variables hold a secret, and taking it out of a text. Does not belong here: what is printed or logged.
"""

from __future__ import annotations

import os
import re

SHORTEST_SECRET_CHARS = 3
"""A shorter one protects nothing, and hiding it would turn every sentence into asterisks."""

# In key=value form, quoted when it holds spaces, or as a parameter of an address.
_PASSWORD_OF_A_DSN = re.compile(r"password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^\s&]*))")


def mask(text: str) -> str:
    """The text without the secrets of the environment, should a library have quoted one."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    return text


def _secrets() -> list[str]:
    from urllib.parse import quote, unquote, urlsplit

    secrets = ("QDRANT_API_KEY", "QUERY_KEY_SECRET", "THREADHOUSE_TOKEN")
    found = [os.environ.get(name, "") for name in secrets]
    for variable in (
        "DATABASE_URL",
        "EXECUTOR_URL",
        "EXECUTOR_RESULTS_URL",
        "LAKE_URL",
        "QDRANT_URL",
    ):
        address = os.environ.get(variable, "")
        try:
            password = urlsplit(address).password or ""
        except ValueError:
            password = ""
        if match := _PASSWORD_OF_A_DSN.search(address):
            password = match[1] or match[2]
        found += [password, unquote(password), quote(password)]
    return [secret for secret in found if len(secret) >= SHORTEST_SECRET_CHARS]
