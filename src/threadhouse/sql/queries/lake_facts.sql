-- DuckDB. Events of some days as facts: one a query, one a suggested thread, one a query whose choice among threads nobody reported.
-- Equal facts are counted together, so that millions of events leave as many rows as there are different ones.
-- But for ids and instants there are few different events. Each kind gets numbers, and what is known of a query is five integers: texts
-- kept for every query would not fit into memory. Five integers say everything unless its query events, its verdicts or the threads
-- suggested for it differ from one another. Those queries alone are looked at again, by instants and ids.
with event as not materialized
( select local_day, event_id, occurred_at, attributed_at, occurred_at = attributed_at as is_first, type, query_id, lane, thread_id
       , resolution_path, sufficient, is_recurring
  from read_parquet($files, hive_partitioning = true, hive_types = {'local_day': date})
  where query_id is not null )
, kind as materialized
( select *
       , case when type = 'query' and is_first then (row_number() over ())::int end as asked
       , case when type in ('suggestion', 'rejection') then (dense_rank() over (order by thread_id))::int end as named
       , case type
           when 'pack_delivered' then 1
           when 'wrong_thread' then 2
           when 'noisy_context' then 4
           when 'noisy_unit' then 4
           when 'missing_thread_confirmed' then 8
           when 'extra_search' then 16
           when 'sufficiency_verdict' then case when sufficient then 32 else 64 end
           when 'suggestion' then 128
           when 'rejection' then 256
           else 0
         end::int as said
  from (select distinct type, is_first, lane, thread_id, resolution_path, is_recurring, sufficient from event) )
, seen as
( select local_day, query_id, min(asked) as asked, min(named) as named, bit_or(said) as said
       , min(asked) <> max(asked) or min(named) <> max(named) or bit_or(said) & 96 = 96 as is_disputed
  from event
  join kind
    on  kind.type = event.type
    and kind.is_first = event.is_first
    and kind.lane is not distinct from event.lane
    and kind.thread_id is not distinct from event.thread_id
    and kind.resolution_path is not distinct from event.resolution_path
    and kind.is_recurring is not distinct from event.is_recurring
    and kind.sufficient is not distinct from event.sufficient
  group by local_day, query_id
  having min(asked) is not null )
, counted as materialized
( select local_day, asked, named, said, case when is_disputed then query_id end as disputed, count(*) as facts
  from seen
  group by all )
, plain as
( select local_day, lane, kind.thread_id, resolution_path, is_recurring, thread.thread_id as named_id, counted.said, facts
  from counted
  join kind using (asked)
  left join (select distinct named, thread_id from kind where named is not null) thread on thread.named = counted.named
  where disputed is null )
, again as materialized
( select event.*
  from event
  semi join (select local_day, disputed as query_id from counted where disputed is not null) using (local_day, query_id) )
, query as materialized
( select local_day, query_id, lane, thread_id, resolution_path, is_recurring
  from again where type = 'query' and is_first
  qualify row_number() over (partition by local_day, query_id order by event_id) = 1 )
, follow as
( select local_day, query_id
       , bool_or(type = 'pack_delivered') as has_pack
       , bool_or(type = 'wrong_thread') as has_wrong_thread
       , bool_or(type in ('noisy_context', 'noisy_unit')) as has_noisy_context
       , bool_or(type = 'missing_thread_confirmed') as has_missing_thread
       , bool_or(type = 'extra_search') as has_extra_search
       , bool_or(type = 'sufficiency_verdict') as has_sufficiency_verdict
       , arg_max(sufficient, (occurred_at, event_id)) filter (where type = 'sufficiency_verdict') as is_sufficient
  from again
  group by all )
, suggested as
( select local_day, query_id, thread_id, bool_or(type = 'rejection') as is_rejected
  from again
  where type in ('suggestion', 'rejection')
  group by all
  having bool_or(type = 'suggestion') )
select 'query' as grain, local_day, lane, thread_id, resolution_path, is_recurring
     , said & 1 > 0 as has_pack
     , said & 96 > 0 as has_sufficiency_verdict
     , said & 32 > 0 as is_sufficient
     , said & 2 > 0 as has_wrong_thread
     , said & 4 > 0 as has_noisy_context
     , said & 8 > 0 as has_missing_thread
     , said & 16 > 0 as has_extra_search
     , false as is_suggested, false as is_rejected
     , facts
from plain
union all by name
select 'suggestion' as grain, local_day, lane, named_id as thread_id, true as is_suggested, said & 256 > 0 as is_rejected, facts
from plain where said & 128 > 0
union all by name
select 'suggestion' as grain, local_day, lane, false as is_suggested, false as is_rejected, facts
from plain where said & 128 = 0 and resolution_path = 'candidates'
union all by name
select 'query' as grain, local_day, lane, thread_id, resolution_path, is_recurring
     , has_pack, has_sufficiency_verdict, coalesce(is_sufficient, false) as is_sufficient
     , has_wrong_thread, has_noisy_context, has_missing_thread, has_extra_search
     , false as is_suggested, false as is_rejected
     , count(*) as facts
from query join follow using (local_day, query_id)
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
