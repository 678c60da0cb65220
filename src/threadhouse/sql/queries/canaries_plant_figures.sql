-- One figure, one health check and one gap for every thread of canaries and every lane.
with figure as
( insert into nao.retrieval_metric_aggregate
  (local_day, lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high)
  select %(day)s::date, lane, thread_id, 'thread_hit_rate', 0, 10, 0, 0, 0.3
  from unnest(%(lanes)s::text[]) as lane cross join unnest(%(threads)s::text[]) as thread_id )
, health as
( insert into nao.health_signal (signal_id, thread_id, status)
  select gen_random_uuid(), thread_id, 'healthy' from unnest(%(threads)s::text[]) as thread_id )
insert into nao.search_gap_signal (signal_id, kind, cause_key, thread_id, lane)
select gen_random_uuid(), 'weak_thread', lane || '/' || thread_id, thread_id, lane
from unnest(%(lanes)s::text[]) as lane cross join unnest(%(threads)s::text[]) as thread_id
