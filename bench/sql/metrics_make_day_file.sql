-- DuckDB. The same events as a day file of the lake.
copy
( with query as
  ( select n, $starts_at::timestamptz + to_microseconds((n * ($micros / $queries))::bigint) as asked_at
         , (['customer', 'partner', 'employee', 'ai_agent'])[1 + n % 4] as lane
         , (['thread', 'thread', 'thread', 'thread', 'thread', 'thread', 'thread', 'candidates', 'fallback', 'none'])[1 + n % 10] as path
         , 'thread-' || (n * 7919 % $threads) as thread
    from range(0, $queries::bigint) r(n) )
  , event as
  ( select *, 0 as kind, 'query' as type, 0 as minutes, null::boolean as sufficient from query
    union all select *, 1, 'pack_delivered', 0, null from query where path <> 'none'
    union all select *, 2, 'suggestion', 0, null from query where path in ('thread', 'candidates')
    union all select *, 3, 'sufficiency_verdict', 5, n % 3 <> 0 from query where n % 2 = 0
    union all select *, 4, 'noisy_context', 6, null from query where n % 11 = 0
    union all select *, 5, 'wrong_thread', 6, null from query where n % 13 = 0
    union all select *, 6, 'extra_search', 1, null from query where n % 5 = 0
    union all select *, 7, 'rejection', 2, null from query where n % 9 = 0 )
  select ( printf('%012x', epoch_ms(asked_at)) || '7' || substr(md5(n || '-' || kind), 1, 3) || '8' || substr(md5(n || '-' || kind), 4, 15) )::uuid as event_id
       , n * 8 + kind as ingest_seq, 2::int as event_version
       , asked_at + to_minutes(minutes) as occurred_at, asked_at + to_minutes(minutes) as ingested_at, asked_at as attributed_at
       , type, ( printf('%012x', epoch_ms(asked_at)) || '7' || substr(md5(n::varchar), 1, 3) || '8' || substr(md5(n::varchar), 4, 15) )::uuid as query_id
       , 's' || (n // 5) as session_id, lane
       , case when path = 'thread' and kind <> 7 or kind in (2, 7) then thread end as thread_id
       , case when kind = 0 then path end as resolution_path, null::varchar as reason, case when kind = 0 then 12.5::double end as latency_ms
       , null::varchar as unit_address, null::varchar as query_key, case when kind = 0 then n % 7 = 0 end as is_recurring
       , sufficient, '{}' as details
  from event
) to $file (format parquet, compression zstd, kv_metadata {'threadhouse.day_digest': $digest})
