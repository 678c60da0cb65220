"""The embedding cache in Postgres, shared by every machine that works on the hub.

Belongs here: reading and writing ``nao.embedding_cache``.
Does not belong here: when to ask it (stores.embedding_cache).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threadhouse.stores import queries
from threadhouse.stores.postgres import Database

_DTYPE = np.dtype(
    "<f4"
)  # stated, so that a cache written on one machine reads the same on any other


@dataclass(frozen=True, slots=True)
class PostgresVectorCache:
    """Implements ``stores.embedding_cache.VectorCache``. A vector is its float32 values, little endian."""

    database: Database

    def get_many(
        self, space_id: str, role: str, hashes: Sequence[str]
    ) -> Mapping[str, NDArray[np.float32]]:
        """The known ones among ``hashes``."""
        if not hashes:
            return {}
        with (
            self.database.connect() as connection,
            # Binary, because the text form of bytea is twice the size and has to be decoded.
            connection.cursor(binary=True) as cursor,
        ):
            cursor.execute(
                queries.load("embedding_cache_get"),
                {"space_id": space_id, "role": role, "hashes": list(hashes)},
            )
            return {row[0]: np.frombuffer(row[1], _DTYPE).astype(np.float32) for row in cursor}

    def put_many(
        self, space_id: str, role: str, vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Keep these vectors; committed on return."""
        if not vectors:
            return
        with self.database.connect() as connection:
            connection.execute(
                queries.load("embedding_cache_put"),
                {
                    "space_id": space_id,
                    "role": role,
                    "hashes": list(vectors),
                    "vectors": [
                        np.ascontiguousarray(v, _DTYPE).tobytes() for v in vectors.values()
                    ],
                },
                binary=True,
            )
