"""How many examples the property tests try, chosen by ``HYPOTHESIS_PROFILE``.

Belongs here: the profiles. Does not belong here: strategies (they live beside the tests that use them).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No profile has a deadline: the machine is shared and a slow example is not a wrong one.
settings.register_profile("default", max_examples=100, deadline=None)
# The same examples in every run, so that a red build is red for its change and not for its luck.
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile(
    "thorough",
    max_examples=1000,
    deadline=None,
    # Ten times the examples take ten times as long; that is what was asked for.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
