-- Stations of the lifecycle that a thread is known to lack, as far as a lane may know of them.
with lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from unnest(%(lanes)s::text[]) as l (lane) )
select e.thread_id, lane.lane, array_agg(distinct e.lifecycle_stage) as missing_stages
from lane
join source.expected_artifact_missing e on coalesce(cong.lifecycle_stage_bit(e.lifecycle_stage) & ~lane.allowed = 0, false)
where e.status = 'open'
group by e.thread_id, lane.lane
