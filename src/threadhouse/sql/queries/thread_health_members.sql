-- What each lane sees of each thread, over the members that it sees.
with lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from unnest(%(lanes)s::text[]) as l (lane) )
, member as materialized
( select m.thread_id, m.role, m.confidence
       , i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification, i.created_at
  from source.thread_membership m
  join source.information_unit i using (logical_unit_id)
  where m.status in ('confirmed', 'proposed', 'needs_human') )
select m.thread_id, lane.lane, count(*) as unit_count, avg(m.confidence) as mean_confidence, max(m.created_at) as last_change_at
     , coalesce(array_agg(distinct m.authority) filter (where m.role = 'canonical'), array_agg(distinct m.authority)) as authorities
     , array_agg(distinct m.lifecycle_stage) as covered_stages
from lane
cross join member m
join source.semantic_thread t using (thread_id)
where cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage, m.data_classification, lane.allowed)
  and cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, lane.allowed)
group by m.thread_id, lane.lane
order by m.thread_id, lane.lane
