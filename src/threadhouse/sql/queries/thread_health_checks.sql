-- Of each thread and lane: the check in force, what held when it was last measured, and when an operator last stated something.
with checked as materialized
( select h.thread_id, lane.lane, h.signal_id, h.status, h.observer, h.observed_at, h.evidence
       , row_number() over (partition by h.thread_id, lane.lane order by h.observed_at desc, h.signal_id desc) as age
       , row_number() over (partition by h.thread_id, lane.lane, h.observer order by h.observed_at desc, h.signal_id desc) as age_of_observer
  from nao.health_signal h
  join unnest(%(lanes)s::text[]) as lane (lane) on h.lane is null or h.lane = lane.lane
  where h.kind = 'thread_health' )
select n.thread_id, n.lane, n.signal_id, n.status, n.observer, n.observed_at
     , coalesce(m.evidence -> 'held', '[]') as held, s.observed_at as last_statement_at
from checked n
left join checked m on m.thread_id = n.thread_id and m.lane = n.lane and m.observer = 'threadhouse' and m.age_of_observer = 1
left join checked s on s.thread_id = n.thread_id and s.lane = n.lane and s.observer = 'operator' and s.age_of_observer = 1
where n.age = 1
