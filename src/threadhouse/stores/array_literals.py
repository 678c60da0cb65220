"""Lists of words as Postgres writes an array of text.

Belongs here: writing one once that is sent many times. Does not belong here: which words.

The driver writes a list word by word in every statement that it is a parameter of, which takes longer than sending it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from psycopg.adapt import PyFormat, Transformer

_REMEMBERED_LISTS = 4_096
"""Allow-lists and the like; seven for each set of rights."""


def array_literal(words: Iterable[str]) -> str:
    r"""An array literal; Postgres casts it to the type of the elements.

    Example:
        >>> print(array_literal(["a", 'b"', "c,d"]))
        {a,"b\"","c,d"}
    """
    elements = list(words)
    literal = Transformer().get_dumper(elements, PyFormat.TEXT).dump(elements)
    return bytes(literal or b"").decode()


def allow_list_parameters(allowed: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Allow-lists as parameters of the statements that take them, by field."""
    return {name: _sorted_literal(frozenset(values)) for name, values in allowed.items()}


@lru_cache(maxsize=_REMEMBERED_LISTS)
def _sorted_literal(words: frozenset[str]) -> str:
    return array_literal(sorted(words))
