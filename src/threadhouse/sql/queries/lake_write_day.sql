-- DuckDB. Whatever stream the events come in, the file has these types, and the state of the day lies in its footer.
copy
( select event_id::uuid as event_id
       , ingest_seq::bigint as ingest_seq
       , event_version::int as event_version
       , occurred_at::timestamptz as occurred_at
       , ingested_at::timestamptz as ingested_at
       , attributed_at::timestamptz as attributed_at
       , type::varchar as type
       , query_id::uuid as query_id
       , session_id::varchar as session_id
       , lane::varchar as lane
       , thread_id::varchar as thread_id
       , resolution_path::varchar as resolution_path
       , reason::varchar as reason
       , latency_ms::double as latency_ms
       , unit_address::varchar as unit_address
       , query_key::varchar as query_key
       , is_recurring::boolean as is_recurring
       , sufficient::boolean as sufficient
       , details::varchar as details
  from event_stream
) to $file (format parquet, compression zstd, kv_metadata {'threadhouse.day_digest': $digest})
