"""Asset checks: invariants about data."""
