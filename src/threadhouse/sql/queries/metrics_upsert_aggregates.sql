-- Rows whose figures are the same are left alone: revision, reason and time tell of changes only.
insert into nao.retrieval_metric_aggregate as known
( local_day, lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high, requires_instrumentation, target )
select %(day)s, lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high, requires_instrumentation, target
from unnest
( %(lane)s::text[], %(thread_id)s::text[], %(metric)s::text[], %(numerator)s::bigint[], %(denominator)s::bigint[]
, %(rate)s::double precision[], %(wilson_low)s::double precision[], %(wilson_high)s::double precision[]
, %(requires_instrumentation)s::boolean[], %(target)s::double precision[]
) as counted (lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high, requires_instrumentation, target)
on conflict (local_day, lane, thread_id, metric) do update
set numerator = excluded.numerator
  , denominator = excluded.denominator
  , rate = excluded.rate
  , wilson_low = excluded.wilson_low
  , wilson_high = excluded.wilson_high
  , requires_instrumentation = excluded.requires_instrumentation
  , target = excluded.target
  , revision = known.revision + 1
  , restated_reason = %(reason)s
  , computed_at = now()
where ( known.numerator, known.denominator, known.rate, known.wilson_low, known.wilson_high
      , known.requires_instrumentation, known.target )
   is distinct from
      ( excluded.numerator, excluded.denominator, excluded.rate, excluded.wilson_low, excluded.wilson_high
      , excluded.requires_instrumentation, excluded.target )
returning revision = 1 as is_new
