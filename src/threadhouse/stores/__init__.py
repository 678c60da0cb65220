"""I/O without Dagster: the only importers of database, vector, embedding and file drivers."""
