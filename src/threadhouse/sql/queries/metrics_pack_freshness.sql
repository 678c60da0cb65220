-- A pack is stale when its thread has moved on or is gone; only the lane's own packs are counted for a lane.
select p.lane
     , count(*) as packs
     , count(*) filter (where t.thread_id is null or p.input_revision <> t.input_revision) as stale_packs
     , min(p.built_at) as oldest_built_at
from nao.context_pack_in_force p
left join source.semantic_thread t using (thread_id)
where %(lane)s::text is null or p.lane = %(lane)s
group by p.lane
order by p.lane
