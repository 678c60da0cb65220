"""The query path. No Dagster import."""
