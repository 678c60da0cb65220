"""The identity of a vector space.

Belongs here: which facts make two vectors comparable, and the id computed from them.
Does not belong here: reading those facts from a model's files (stores.embedders), stamping collections (stores.vectors).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

import regex

from threadhouse.retrieval.models import VectorSpace
from threadhouse.retrieval.text import PREPARATION_VERSION

_NOT_NAME = regex.compile(r"[^a-z0-9]+")


def identify_space(space: VectorSpace) -> VectorSpace:
    """The same space with a ``space_id`` that changes when anything that changes a vector changes.

    Several models have 384 dimensions, so a dimension check catches no mix-up; the hash in the id does.

    Args:
        space: Its ``space_id`` is ignored; its ``name`` is reduced to letters, digits and dashes.

    Returns:
        A space whose id is ``name-dim-hash``, fit for a vector name and for a part of a file name.
    """
    name = _NOT_NAME.sub("-", space.name.lower()).strip("-")
    unnamed = replace(space, name=name, space_id="")
    facts = asdict(unnamed) | {"preparation": PREPARATION_VERSION}
    # 40 bits of the digest: a handful of models ever meet in one store, and people read the id.
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
    return replace(unnamed, space_id=f"{name}-{space.dim}-{digest}")
