-- Of each thread and lane that sees it: the health in force, and how many questions reported noise within the window and since the gap
-- was last fixed.
with lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from unnest(%(lanes)s::text[]) as l (lane) )
, fixed as materialized
( select s.thread_id, s.lane, max((c.changed_at at time zone %(zone)s)::date) as fixed_on
  from nao.gap_signal_change c
  join nao.search_gap_signal s using (signal_id)
  where c.status = 'fixed' and s.kind in ('weak_thread', 'noisy_thread')
  group by s.thread_id, s.lane )
, noise as materialized
( select a.thread_id, a.lane, sum(a.numerator)::int as reports
  from nao.retrieval_metric_aggregate a
  left join fixed f using (thread_id, lane)
  where a.thread_id <> '' and a.metric = 'noisy_context_rate'
    and a.local_day between %(first)s and %(last)s and (f.fixed_on is null or a.local_day > f.fixed_on)
  group by a.thread_id, a.lane )
select t.thread_id, lane.lane, h.status, coalesce(n.reports, 0) as noisy_reports
from lane
cross join source.semantic_thread t
cross join lateral
( select h.status from nao.health_signal h
  where h.thread_id = t.thread_id and h.kind = 'thread_health' and (h.lane is null or h.lane = lane.lane)
  order by h.observed_at desc, h.signal_id desc limit 1 ) h
left join noise n on n.thread_id = t.thread_id and n.lane = lane.lane
where (h.status <> 'healthy' or n.reports > 0)
  and cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, lane.allowed)
  and exists
  ( select from source.thread_membership m
    join source.information_unit i using (logical_unit_id)
    where m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
      and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
        , lane.allowed) )
