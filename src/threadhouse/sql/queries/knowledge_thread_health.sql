-- The latest health check of each thread for each lane: among its own and those that are for every lane. Null selects every thread.
select distinct on (h.thread_id, lane.lane) h.thread_id, lane.lane, h.status, h.observed_at
from nao.health_signal h
join unnest(%(lanes)s::text[]) as lane (lane) on h.lane is null or h.lane = lane.lane
where h.kind = 'thread_health' and (%(thread_ids)s::text[] is null or h.thread_id = any (%(thread_ids)s))
order by h.thread_id, lane.lane, h.observed_at desc, h.signal_id desc
