-- DuckDB.
create table counted_days as
select local_day, source_digest::varchar as source_digest, metrics_version::varchar as metrics_version, computed_at
from days_stream
order by local_day
