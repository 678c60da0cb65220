-- Events of one stretch of time; see bench/metrics.py.
with query as materialized
( select n
       , %(starts_at)s::timestamptz + n * (%(ends_at)s::timestamptz - %(starts_at)s::timestamptz) / %(queries)s as asked_at
       , (array['customer', 'partner', 'employee', 'ai_agent'])[1 + (n %% 4)::int] as lane
       , (array['thread', 'thread', 'thread', 'thread', 'thread', 'thread', 'thread', 'candidates', 'fallback', 'none'])[1 + (n %% 10)::int] as path
       , 'thread-' || (n * 7919 %% %(threads)s) as thread
  from generate_series(0::bigint, %(queries)s - 1) n )
, event as
( select n, 0 as kind, 'query' as type, 0 as minutes, '{}'::jsonb as details from query
  union all select n, 1, 'pack_delivered', 0, '{"unit_count": 8}' from query where path <> 'none'
  union all select n, 2, 'suggestion', 0, '{}' from query where path in ('thread', 'candidates')
  union all select n, 3, 'sufficiency_verdict', 5, case when n %% 3 = 0 then '{"sufficient": false}'::jsonb else '{"sufficient": true}' end from query where n %% 2 = 0
  union all select n, 4, 'noisy_context', 6, '{}' from query where n %% 11 = 0
  union all select n, 5, 'wrong_thread', 6, '{}' from query where n %% 13 = 0
  union all select n, 6, 'extra_search', 1, '{}' from query where n %% 5 = 0
  union all select n, 7, 'rejection', 2, '{}' from query where n %% 9 = 0 )
insert into nao.retrieval_metric_event
( event_id, event_version, occurred_at, ingested_at, type, query_id, session_id, lane, thread_id, resolution_path, latency_ms, is_recurring, details )
select ( lpad(to_hex((extract(epoch from asked_at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n || '-' || kind), 1, 3) || '8'
       || substr(md5(n || '-' || kind), 4, 15) )::uuid
     , 2, asked_at + minutes * interval '1 minute', asked_at + minutes * interval '1 minute', type
     , ( lpad(to_hex((extract(epoch from asked_at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15) )::uuid
     , 's' || n / 5, lane, case when path = 'thread' and kind <> 7 or kind in (2, 7) then thread end
     , case when kind = 0 then path end, case when kind = 0 then 12.5 end, case when kind = 0 then n %% 7 = 0 end, details
from event join query using (n)
