-- The time is that of nights and repairs; following changes through the day is no part of a night, what it wrote is part of the day.
select (finished_at at time zone %(zone)s)::date as local_day
     , coalesce(sum(seconds) filter (where step not like 'changes:%%'), 0) as seconds
     , sum(texts_embedded)::bigint as texts_embedded, sum(cache_hits)::bigint as cache_hits, sum(vector_writes)::bigint as vector_writes
from nao.build_step
where finished_at >= %(first)s and finished_at < %(last)s
group by local_day
order by local_day
