-- The health in force of each thread that a lane sees: the newest check among the lane's own and those that are for every lane.
with lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from unnest(%(lanes)s::text[]) as l (lane) )
select t.thread_id, lane.lane, h.status, h.observer, h.observed_at, h.evidence
from lane
cross join source.semantic_thread t
cross join lateral
( select h.status, h.observer, h.observed_at, h.evidence from nao.health_signal h
  where h.thread_id = t.thread_id and h.kind = 'thread_health' and (h.lane is null or h.lane = lane.lane)
  order by h.observed_at desc, h.signal_id desc limit 1 ) h
where cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, lane.allowed)
  and exists
  ( select from source.thread_membership m
    join source.information_unit i using (logical_unit_id)
    where m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
      and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
        , lane.allowed) )
order by t.thread_id, lane.lane
