-- DuckDB. Events of some days as facts: one a query, one a suggested thread, one a query whose choice among threads nobody reported.
-- Equal facts are counted together, so that millions of events leave as many rows as there are different ones.
-- A query mostly has one query event and one verdict at most. Ordering all of them for the few that have more is what costs: only
-- those are ordered.
with event as
( select local_day, event_id, occurred_at, attributed_at, type, query_id, lane, thread_id, resolution_path, sufficient, is_recurring
  from read_parquet($files, hive_partitioning = true, hive_types = {'local_day': date})
  where query_id is not null )
, asked as
( select local_day, query_id, event_id, lane, thread_id, resolution_path, is_recurring
  from event where type = 'query' and occurred_at = attributed_at )
, asked_twice as
( select local_day, query_id, min(event_id) as event_id from asked group by all having count(*) > 1 )
, query as
( select asked.* exclude (event_id)
  from asked left join asked_twice using (local_day, query_id)
  where asked_twice.event_id is null or asked_twice.event_id = asked.event_id )
, follow as
( select local_day, query_id
       , bool_or(type = 'pack_delivered') as has_pack
       , bool_or(type = 'wrong_thread') as has_wrong_thread
       , bool_or(type in ('noisy_context', 'noisy_unit')) as has_noisy_context
       , bool_or(type = 'missing_thread_confirmed') as has_missing_thread
       , bool_or(type = 'extra_search') as has_extra_search
       , count(*) filter (where type = 'sufficiency_verdict') as verdicts
       , bool_or(sufficient) as is_sufficient
  from event
  where type not in ('query', 'suggestion', 'rejection', 'citation_check')
  group by all )
, ruled_again as
( select local_day, query_id, arg_max(sufficient, (occurred_at, event_id)) as is_sufficient
  from event semi join (select local_day, query_id from follow where verdicts > 1) using (local_day, query_id)
  where type = 'sufficiency_verdict'
  group by all )
, suggested as
( select local_day, query_id, thread_id, bool_or(type = 'rejection') as is_rejected
  from event
  where type in ('suggestion', 'rejection')
  group by all
  having bool_or(type = 'suggestion') )
select 'query' as grain, local_day, lane, thread_id, resolution_path, is_recurring
     , coalesce(has_pack, false) as has_pack
     , coalesce(verdicts > 0, false) as has_sufficiency_verdict
     , coalesce(ruled_again.is_sufficient, follow.is_sufficient, false) as is_sufficient
     , coalesce(has_wrong_thread, false) as has_wrong_thread
     , coalesce(has_noisy_context, false) as has_noisy_context
     , coalesce(has_missing_thread, false) as has_missing_thread
     , coalesce(has_extra_search, false) as has_extra_search
     , false as is_suggested, false as is_rejected
     , count(*) as facts
from query left join follow using (local_day, query_id) left join ruled_again using (local_day, query_id)
group by all
union all by name
select 'suggestion' as grain, local_day, query.lane, suggested.thread_id, true as is_suggested, is_rejected, count(*) as facts
from suggested join query using (local_day, query_id)
group by all
union all by name
select 'suggestion' as grain, local_day, lane, false as is_suggested, false as is_rejected, count(*) as facts
from query anti join suggested using (local_day, query_id)
where resolution_path = 'candidates'
group by all
