"""The numbers of thread resolution in ``cong.retrieval_policy``.

Belongs here: reading the row in force for a vector space, writing a new version.
Does not belong here: what the numbers mean (retrieval.resolution), finding them (retrieval.calibration).
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row
from psycopg.types.json import Jsonb
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.retrieval.models import HealthStatus, Json
from threadhouse.retrieval.ranking import RankingWeights
from threadhouse.retrieval.resolution import RetrievalPolicy
from threadhouse.retrieval.thread_features import INPUTS, MATCH_INPUTS
from threadhouse.stores import queries


class _Ranking(BaseModel):
    model_config = ConfigDict(extra="forbid")

    recency: float = Field(ge=0)
    authority: float = Field(ge=0)
    health: float = Field(ge=0)
    coverage: float = Field(ge=0)
    recency_half_life_days: float = Field(gt=0)
    health_parts: dict[HealthStatus, float]


class _Row(BaseModel):
    policy_version: int
    space_id: str
    coefficients: dict[str, float]
    scales: dict[str, tuple[float, float]]
    ranking: _Ranking
    single_threshold: float
    match_threshold: float
    candidate_floor: float
    candidate_limit: int


def read_retrieval_policy(connection: Connection[TupleRow], space_id: str) -> RetrievalPolicy:
    """The row in force for a space; the one for every space when it has none of its own.

    Raises:
        ConfigurationError: No version is activated, or the row cannot be read.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(queries.load("retrieval_policy_read"), {"space_id": space_id})
        return retrieval_policy_of(cursor.fetchone())


def retrieval_policy_of(row: DictRow | None) -> RetrievalPolicy:
    """What a row of ``retrieval_policy_read`` says.

    Raises:
        ConfigurationError: There is none, or it cannot be read.
    """
    if row is None:
        message = (
            "cong.retrieval_policy has no activated row for this vector space and none for all; "
            "insert one, threads cannot be resolved without it."
        )
        raise ConfigurationError(message)
    try:
        read = _Row.model_validate(row)
        _require_known_inputs(read)
    except ValueError as error:
        # pydantic's ValidationError is a ValueError as well.
        message = (
            f"cong.retrieval_policy version {row['policy_version']} for space {row['space_id']!r} cannot be read: "
            f"{_first_fault(error)}; insert a corrected version."
        )
        raise ConfigurationError(message) from error
    ranking = read.ranking
    return RetrievalPolicy(
        version=read.policy_version,
        space_id=read.space_id,
        coefficients=read.coefficients,
        scales=read.scales,
        ranking=RankingWeights(
            recency=ranking.recency,
            authority=ranking.authority,
            health=ranking.health,
            coverage=ranking.coverage,
            recency_half_life_days=ranking.recency_half_life_days,
            health_parts=ranking.health_parts,
        ),
        single_threshold=read.single_threshold,
        match_threshold=read.match_threshold,
        candidate_floor=read.candidate_floor,
        candidate_limit=read.candidate_limit,
    )


def write_retrieval_policy(
    connection: Connection[TupleRow], policy: RetrievalPolicy, fitted_on: Mapping[str, Json]
) -> int:
    """Put a space's row in force as part of a new version; the rows of other spaces are carried over. Returns the version.

    ``policy.version`` is not looked at: the next free number is taken. Nothing holds before the caller's transaction commits.
    """
    ranking = policy.ranking
    connection.execute(queries.load("retrieval_policy_lock"))
    row = connection.execute(
        queries.load("retrieval_policy_write"),
        {
            "space_id": policy.space_id,
            "coefficients": Jsonb(dict(policy.coefficients)),
            "scales": Jsonb({name: list(scale) for name, scale in policy.scales.items()}),
            "ranking": Jsonb(
                {
                    "recency": ranking.recency,
                    "authority": ranking.authority,
                    "health": ranking.health,
                    "coverage": ranking.coverage,
                    "recency_half_life_days": ranking.recency_half_life_days,
                    "health_parts": {str(k): v for k, v in ranking.health_parts.items()},
                }
            ),
            "single_threshold": policy.single_threshold,
            "match_threshold": policy.match_threshold,
            "candidate_floor": policy.candidate_floor,
            "candidate_limit": policy.candidate_limit,
            "fitted_on": Jsonb(dict(fitted_on)),
        },
    ).fetchone()
    if row is None:
        message = "cong.retrieval_policy took no new version; check the rights on the table."
        raise ConfigurationError(message)
    return int(row[0])


def _require_known_inputs(row: _Row) -> None:
    unknown = sorted(row.coefficients.keys() - set(INPUTS) - set(MATCH_INPUTS))
    if unknown:
        message = f"{unknown[0]!r} is not an input of the model"
        raise ValueError(message)
    narrow = sorted(name for name, (_, width) in row.scales.items() if width <= 0)
    if narrow:
        message = f"the width of the scale {narrow[0]!r} is not positive"
        raise ValueError(message)


def _first_fault(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
