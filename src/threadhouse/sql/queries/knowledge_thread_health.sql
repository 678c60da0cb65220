-- The latest health check of each thread. Null selects those of every thread.
select distinct on (thread_id) thread_id, status, observed_at
from nao.health_signal
where kind = 'thread_health' and (%(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s))
order by thread_id, observed_at desc, signal_id desc
