-- DuckDB.
create table built_from as select $state::varchar as state
