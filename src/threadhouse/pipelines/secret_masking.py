"""Text that people and logs see, without the secrets of the environment.

Belongs here: which variables hold a secret, and taking it out of a text. Does not belong here: what is printed or logged.
"""

from __future__ import annotations

import os
import re

SECRETS = (
    "QDRANT_API_KEY",
    "QUERY_KEY_SECRET",
    "THREADHOUSE_TOKEN",
    # Of the object store that a lake may lie in.
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
"""Variables that are a secret from their first to their last character."""

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

    found = [os.environ.get(name, "") for name in SECRETS]
    for variable in (
        "DATABASE_URL",
        "EXECUTOR_URL",
        "EXECUTOR_RESULTS_URL",
        "LAKE_URL",
        "AWS_ENDPOINT_URL",
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
