-- DuckDB.
create table daily_rates as
select local_day, lane::varchar as lane, thread_id::varchar as thread_id, metric::varchar as metric, numerator, denominator, rate
     , wilson_low, wilson_high, requires_instrumentation, target, revision, restated_reason::varchar as restated_reason, computed_at
from rates_stream
order by local_day, lane, thread_id, metric
