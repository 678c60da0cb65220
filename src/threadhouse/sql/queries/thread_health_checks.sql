-- Of each thread and lane: the check in force, what held when it was last measured, and when an operator last stated something.
-- One pass over the history, not a join of it to itself: that took 44 of 49 seconds at 7,500 checks.
select h.thread_id, lane.lane
     , (array_agg(h.signal_id order by h.observed_at desc, h.signal_id desc))[1] as signal_id
     , (array_agg(h.status order by h.observed_at desc, h.signal_id desc))[1] as status
     , (array_agg(h.observer order by h.observed_at desc, h.signal_id desc))[1] as observer
     , max(h.observed_at) as observed_at
     , coalesce((array_agg(h.evidence -> 'held' order by h.observed_at desc, h.signal_id desc)
         filter (where h.observer = 'threadhouse'))[1], '[]') as held
     , max(h.observed_at) filter (where h.observer = 'operator') as last_statement_at
from nao.health_signal h
join unnest(%(lanes)s::text[]) as lane (lane) on h.lane is null or h.lane = lane.lane
where h.kind = 'thread_health'
group by h.thread_id, lane.lane
