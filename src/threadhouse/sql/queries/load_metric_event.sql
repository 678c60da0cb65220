-- An event that is known arrived twice: the first arrival counts.
insert into nao.retrieval_metric_event
( event_id, event_version, occurred_at, ingested_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
, query_text, details )
select event_id, event_version, occurred_at, coalesce(ingested_at, now()), type, query_id, session_id, lane, thread_id, resolution_path, reason
     , latency_ms, query_text, details
from load_metric_event
order by row_no
on conflict (event_id) do nothing
returning true as was_inserted
