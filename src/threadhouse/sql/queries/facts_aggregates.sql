-- Rates of whole days, one row a day, lane and rate. A counted day without rates is one row that says so.
with due as
( select unnest(%(parts)s::date[]) as local_day )
, by_rate as
( select a.local_day, a.lane, a.metric
       , count(*) filter (where a.thread_id = '') as rows_over_all_threads
       , max(a.numerator) filter (where a.thread_id = '') as numerator
       , max(a.denominator) filter (where a.thread_id = '') as denominator
       , max(a.rate) filter (where a.thread_id = '') as rate
       , max(a.wilson_low) filter (where a.thread_id = '') as wilson_low
       , max(a.wilson_high) filter (where a.thread_id = '') as wilson_high
       -- A double keeps 15 digits; a rate that was counted differs from the quotient in none of them.
       , count(*) filter (where a.denominator > 0 and abs(coalesce(a.rate, 2) - a.numerator::double precision / a.denominator) > 1e-12)
         as rows_with_wrong_rate
       , count(*) filter (where coalesce(a.denominator, 0) = 0 and num_nonnulls(a.rate, a.wilson_low, a.wilson_high) > 0)
         as rows_with_invented_rate
       , count(*) filter (where a.requires_instrumentation <> (a.denominator is null)) as rows_with_wrong_mark
  from nao.retrieval_metric_aggregate a
  join due using (local_day)
  group by a.local_day, a.lane, a.metric )
, lanes as
( select local_day, metric, sum(numerator) as numerator, sum(denominator) as denominator
  from by_rate where lane <> 'overall' group by local_day, metric )
select due.local_day::text as local_day, b.lane, b.metric
     , count(b.local_day) over (partition by due.local_day) as rows_of_day
     , b.rows_over_all_threads, b.numerator, b.denominator, b.rate, b.wilson_low, b.wilson_high
     , b.rows_with_wrong_rate, b.rows_with_invented_rate, b.rows_with_wrong_mark
     , case when b.lane = 'overall' then abs(b.numerator - coalesce(l.numerator, 0)) else 0 end::bigint as numerator_off_by
     , case when b.lane = 'overall' then abs(coalesce(b.denominator, 0) - coalesce(l.denominator, 0)) else 0 end::bigint as denominator_off_by
     , m.local_day is not null as is_counted_day
from due
left join by_rate b using (local_day)
left join lanes l using (local_day, metric)
left join nao.retrieval_metric_day m using (local_day)
order by due.local_day, b.lane, b.metric
