-- DuckDB. One row a query, with what became of it; of two query events with one id the earlier, of several verdicts the last.
create view queries as
select local_day
     , query_id
     , min(occurred_at) filter (where type = 'query') as asked_at
     , arg_min_null(session_id, (occurred_at, event_id)) filter (where type = 'query') as session_id
     , arg_min_null(lane, (occurred_at, event_id)) filter (where type = 'query') as lane
     , arg_min_null(thread_id, (occurred_at, event_id)) filter (where type = 'query') as thread_id
     , arg_min_null(resolution_path, (occurred_at, event_id)) filter (where type = 'query') as resolution_path
     , arg_min_null(reason, (occurred_at, event_id)) filter (where type = 'query') as reason
     , arg_min_null(latency_ms, (occurred_at, event_id)) filter (where type = 'query') as latency_ms
     , arg_min_null(query_key, (occurred_at, event_id)) filter (where type = 'query') as query_key
     , arg_min_null(is_recurring, (occurred_at, event_id)) filter (where type = 'query') as is_recurring
     , bool_or(type = 'pack_delivered') as has_pack
     , arg_max(sufficient, (occurred_at, event_id)) filter (where type = 'sufficiency_verdict') as is_sufficient
     , bool_or(type = 'wrong_thread') as has_wrong_thread
     , bool_or(type in ('noisy_context', 'noisy_unit')) as has_noisy_context
     , bool_or(type = 'missing_thread_confirmed') as has_missing_thread
     , bool_or(type = 'extra_search') as has_extra_search
from events
where query_id is not null
group by local_day, query_id
having count(*) filter (where type = 'query') > 0
