-- DuckDB. Written and tuned by hand for these events: the lanes and paths are known, there is one query event, at most one verdict and at
-- most one suggestion a query, no instant or id is looked at, and nothing is stored. A thread becomes a number, a query three integers.
with event as not materialized
( select local_day, query_id, type, lane, coalesce(thread_id, '') as thread_id, resolution_path as path, sufficient
  from read_parquet($files, hive_partitioning = true, hive_types = {'local_day': date}) )
, name as materialized
( select thread_id, (row_number() over ())::int as number from (select distinct thread_id from event) )
, query as
( select local_day, query_id
       , max(case when type = 'query' then number * 16 + 4 * case lane when 'customer' then 0 when 'partner' then 1 when 'employee' then 2 else 3 end
                                         + case path when 'thread' then 0 when 'candidates' then 1 when 'fallback' then 2 else 3 end end) as asked
       , max(case when type in ('suggestion', 'rejection') then number end) as named
       , bit_or(case type
           when 'pack_delivered' then 1
           when 'wrong_thread' then 2
           when 'noisy_context' then 4
           when 'missing_thread_confirmed' then 8
           when 'extra_search' then 16
           when 'sufficiency_verdict' then case when sufficient then 96 else 64 end
           when 'suggestion' then 128
           when 'rejection' then 256
           else 0 end::int) as said
  from event join name using (thread_id)
  group by local_day, query_id )
, counted as materialized (select local_day, asked, named, said, count(*) as facts from query group by all)
, told as
( select local_day, (['customer', 'partner', 'employee', 'ai_agent'])[1 + asked // 4 % 4] as lane
       , (['thread', 'candidates', 'fallback', 'none'])[1 + asked % 4] as path
       , asks.thread_id as thread, suggested.thread_id as named
       , said & 1 > 0 as pack, said & 2 > 0 as wrong, said & 4 > 0 as noisy, said & 8 > 0 as missing, said & 16 > 0 as extra
       , said & 32 > 0 as sufficient, said & 64 > 0 as ruled, said & 78 > 0 as judged, said & 128 > 0 as suggestion, said & 256 > 0 as rejected, facts
  from counted join name asks on asks.number = asked // 16 left join name suggested on suggested.number = named )
select 'queries' as part, local_day, lane, thread
     , sum(facts) as queries
     , sum(facts) filter (where path = 'thread') as hits
     , sum(facts) filter (where path = 'fallback') as fallbacks
     , sum(facts) filter (where ruled) as ruled
     , sum(facts) filter (where sufficient) as sufficient
     , sum(facts) filter (where path in ('thread', 'candidates') and judged) as matched_judged
     , sum(facts) filter (where path in ('thread', 'candidates') and wrong) as wrong
     , sum(facts) filter (where judged) as judged
     , sum(facts) filter (where missing) as missing
     , sum(facts) filter (where pack and judged) as pack_judged
     , sum(facts) filter (where pack and noisy) as pack_noisy
     , sum(facts) filter (where pack) as packs
     , sum(facts) filter (where pack and extra) as searched
from told group by grouping sets ((local_day), (local_day, lane), (local_day, thread), (local_day, lane, thread))
union all by name
select 'suggestions' as part, local_day, lane, named as thread, sum(facts) as queries, sum(facts) filter (where rejected) as hits
from told where suggestion group by grouping sets ((local_day), (local_day, lane), (local_day, named), (local_day, lane, named))
