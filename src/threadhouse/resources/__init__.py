"""How Dagster opens things: thin resources, no logic."""
