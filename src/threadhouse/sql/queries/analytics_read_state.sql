-- DuckDB.
select state from built_from
