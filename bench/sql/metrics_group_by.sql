-- PostgreSQL. The same by hand, over the table.
with event as materialized
( select * from nao.retrieval_metric_event where occurred_at >= %(first)s and occurred_at < %(last)s )
, query as
( select query_id
       , max(lane) filter (where type = 'query') as lane
       , max(thread_id) filter (where type = 'query') as thread
       , max(resolution_path) as path
       , bool_or((details ->> 'sufficient')::boolean) as verdict
       , bool_or(type = 'pack_delivered') as pack
       , bool_or(type = 'wrong_thread') as wrong
       , bool_or(type = 'noisy_context') as noisy
       , bool_or(type = 'missing_thread_confirmed') as missing
       , bool_or(type = 'extra_search') as extra
  from event group by query_id )
, suggested as
( select query_id, thread_id, bool_or(type = 'rejection') as rejected, max(lane) as lane
  from event where type in ('suggestion', 'rejection') group by query_id, thread_id having bool_or(type = 'suggestion') )
, counted as
( select lane, thread
     , count(*) as queries
     , count(*) filter (where path = 'thread') as hits
     , count(*) filter (where path = 'fallback') as fallbacks
     , count(*) filter (where verdict is not null) as ruled
     , count(*) filter (where verdict) as sufficient
     , count(*) filter (where path in ('thread', 'candidates') and (verdict is not null or wrong or noisy or missing)) as matched_judged
     , count(*) filter (where path in ('thread', 'candidates') and wrong) as wrong
     , count(*) filter (where verdict is not null or wrong or noisy or missing) as judged
     , count(*) filter (where missing) as missing
     , count(*) filter (where pack and (verdict is not null or wrong or noisy or missing)) as pack_judged
     , count(*) filter (where pack and noisy) as pack_noisy
     , count(*) filter (where pack) as packs
     , count(*) filter (where pack and extra) as searched
  from query group by grouping sets ((), (lane), (thread), (lane, thread)) )
, told as
( select lane, thread_id, count(*), count(*) filter (where rejected)
  from suggested group by grouping sets ((), (lane), (thread_id), (lane, thread_id)) )
select (select count(*) from counted) + (select count(*) from told), (select max(hits) from counted where lane is null and thread is null)
