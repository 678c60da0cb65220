"""Fitting the numbers of resolution on everything that the quality benchmark asked.

Belongs here: putting the observations of several hubs together, weighing them, writing what was fitted.
Does not belong here: the fit itself (`retrieval.calibration`), shipping it (a migration).

It is what `threadhouse calibrate` does for one hub, with two differences: several hubs are fitted together, and a thread that is
gone was really gone when the question was asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.measuring import BenchFailedError, Measure, say
from threadhouse.retrieval.calibration import Observation, calibrate
from threadhouse.retrieval.models import Json
from threadhouse.retrieval.resolution import RetrievalPolicy


@dataclass(slots=True)
class Fitting:
    """Observations of all hubs so far."""

    seen: list[Observation] = field(default_factory=list[Observation])
    gone: dict[str, Observation] = field(default_factory=dict[str, Observation])
    policy: RetrievalPolicy | None = None

    def add(
        self, seen: Sequence[Observation], gone: Sequence[Observation], policy: RetrievalPolicy
    ) -> None:
        """Take what one task showed, and the policy that it was asked under."""
        self.seen += seen
        self.gone |= {each.query_id: each for each in gone}
        self.policy = policy

    def fit(self, space_id: str, path: Path) -> list[Measure]:
        """Write the fitted policy with its report; the figures are of threads that were not fitted on."""
        if self.policy is None:
            message = "Nothing was asked, so nothing can be fitted; leave --only out."
            raise BenchFailedError(message)
        say(f"fitting on {len(self.seen):,} questions")
        found = calibrate(
            self.seen, self.policy, space_id=space_id, now=datetime.now(UTC), withheld=self.gone
        )
        document: dict[str, Json] = {
            "space_id": space_id,
            "coefficients": dict(found.policy.coefficients),
            "single_threshold": found.policy.single_threshold,
            "match_threshold": found.policy.match_threshold,
            "fitted_on": found.fitted.as_json(),
            "before": found.current.as_json(),
        }
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        before, after = found.current.as_json(), found.fitted.as_json()
        return [
            Measure(f"fitted, {name}", _number(after[name]), "", "shipped", _number(before[name]))
            for name in after
        ]


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
