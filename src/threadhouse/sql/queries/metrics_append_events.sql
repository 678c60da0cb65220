-- A second arrival under a known id is the same event and changes nothing.
insert into nao.retrieval_metric_event
( event_id, event_version, occurred_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
, query_text, unit_address, query_key, is_recurring, details
)
select event_id, event_version, occurred_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
     , query_text, unit_address, query_key, is_recurring, details
from jsonb_to_recordset(%(events)s) as given
( event_id uuid, event_version int, occurred_at timestamptz, type text, query_id uuid, session_id text, lane text
, thread_id text, resolution_path text, reason text, latency_ms double precision, query_text text
, unit_address text, query_key text, is_recurring boolean, details jsonb
)
on conflict (event_id) do nothing
