-- DuckDB. Written by hand for these events: one query event and at most one verdict a query, each with the lane of its query.
with event as (select * from read_parquet($files, hive_partitioning = true, hive_types = {'local_day': date}))
, query as
( select local_day, query_id
       , any_value(lane) filter (where type = 'query') as lane
       , any_value(thread_id) filter (where type = 'query') as thread
       , any_value(resolution_path) as path
       , any_value(sufficient) as verdict
       , bool_or(type = 'pack_delivered') as pack
       , bool_or(type = 'wrong_thread') as wrong
       , bool_or(type = 'noisy_context') as noisy
       , bool_or(type = 'missing_thread_confirmed') as missing
       , bool_or(type = 'extra_search') as extra
  from event group by local_day, query_id )
, suggested as
( select local_day, query_id, thread_id, bool_or(type = 'rejection') as rejected, any_value(lane) as lane
  from event where type in ('suggestion', 'rejection') group by local_day, query_id, thread_id having bool_or(type = 'suggestion') )
select 'queries' as part, local_day, lane, thread 
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

from query group by grouping sets ((local_day), (local_day, lane), (local_day, thread), (local_day, lane, thread))
union all by name
select 'suggestions' as part, local_day, lane, thread_id as thread, count(*) as queries, count(*) filter (where rejected) as hits
from suggested group by grouping sets ((local_day), (local_day, lane), (local_day, thread_id), (local_day, lane, thread_id))
