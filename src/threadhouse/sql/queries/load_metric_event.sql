-- An event that is known arrived twice: the first arrival counts.
insert into nao.retrieval_metric_event
( event_id, event_version, occurred_at, ingested_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
, query_text, unit_address, query_key, is_recurring, details )
select event_id, event_version, occurred_at, coalesce(ingested_at, now()), type, query_id, session_id, lane, thread_id, resolution_path, reason
     , latency_ms, query_text, unit_address, query_key
       -- Whether the lane had asked it before, as far as is known when the event is loaded.
     , case when type = 'query' and query_key is not null then
         exists ( select from nao.retrieval_metric_event known
                  where known.type = 'query' and known.query_key = given.query_key and known.occurred_at < given.occurred_at )
         or exists ( select from load_metric_event known
                     where known.type = 'query' and known.query_key = given.query_key and known.occurred_at < given.occurred_at )
       end
     , details
from load_metric_event given
order by row_no
on conflict (event_id) do nothing
returning true as was_inserted
