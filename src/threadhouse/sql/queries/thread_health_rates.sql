-- Rates of each thread and lane over the window. Where somebody said that a gap of the thread is fixed, the window begins on the day after.
with fixed as materialized
( select s.thread_id, s.lane, max((c.changed_at at time zone %(zone)s)::date) as fixed_on
  from nao.gap_signal_change c
  join nao.search_gap_signal s using (signal_id)
  where c.status = 'fixed' and s.kind in ('weak_thread', 'noisy_thread')
  group by s.thread_id, s.lane )
select a.thread_id, a.lane, a.metric, sum(a.numerator)::bigint as numerator, sum(coalesce(a.denominator, 0))::bigint as denominator
from nao.retrieval_metric_aggregate a
left join fixed f using (thread_id, lane)
where a.thread_id <> '' and a.lane <> 'overall' and a.metric = any (%(metrics)s)
  and a.local_day between %(first)s and %(last)s and (f.fixed_on is null or a.local_day > f.fixed_on)
group by a.thread_id, a.lane, a.metric
