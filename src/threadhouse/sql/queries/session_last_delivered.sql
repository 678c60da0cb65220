-- The pack that a session got last. Raw searches deliver none.
select query_id, thread_id
from nao.retrieval_metric_event
where session_id = %(session_id)s and type = 'pack_delivered' and lane = %(lane)s
order by occurred_at desc, ingest_seq desc
limit 1
