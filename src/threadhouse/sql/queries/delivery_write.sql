-- Everything that a delivery leaves behind, at once. Events that are known already (the same query, tried again) change nothing, nor
-- do the gaps that came with them.
with logged as
( insert into nao.retrieval_metric_event
  ( event_id, event_version, occurred_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
  , query_text, unit_address, query_key, is_recurring, details )
  select event_id, event_version, occurred_at, type, query_id, session_id, lane, thread_id, resolution_path, reason, latency_ms
       , query_text, unit_address, query_key
       -- Whether the lane has asked the same before is known to nobody but the table.
       , case when type = 'query' and query_key is not null then
           exists ( select from nao.retrieval_metric_event known where known.type = 'query' and known.query_key = given.query_key )
         end
       , details
  from jsonb_to_recordset(%(events)s) as given
  ( event_id uuid, event_version int, occurred_at timestamptz, type text, query_id uuid, session_id text, lane text
  , thread_id text, resolution_path text, reason text, latency_ms double precision, query_text text
  , unit_address text, query_key text, details jsonb )
  on conflict (event_id) do nothing
  returning event_id )
, noted as
( insert into nao.search_gap_signal as s (signal_id, kind, cause_key, thread_id, lane, evidence)
  -- Under the key that it is kept under, if that is an earlier release's.
  select given.signal_id, given.kind, coalesce(known.cause_key, given.cause_key), given.thread_id, given.lane, given.evidence
  from jsonb_to_recordset(%(signals)s) as given
  (signal_id uuid, kind text, cause_key text, former_key text, thread_id text, lane text, evidence jsonb)
  left join nao.search_gap_signal known on known.kind = given.kind and known.cause_key = given.former_key
  where exists (select from logged)
  on conflict (kind, cause_key) do update set
    occurrence_count = s.occurrence_count + 1
  , last_seen_at = clock_timestamp()
  , evidence = s.evidence || excluded.evidence
  , status = case s.status when 'fixed' then 'reopened' else s.status end )
, delivered as
( insert into nao.delivered_pack (pack_id, lane, thread_id, source_revisions)
  select %(pack_id)s::uuid, %(lane)s::text, %(thread_id)s::text, %(source_revisions)s::jsonb
  where %(pack_id)s::uuid is not null
  on conflict (pack_id) do nothing )
select count(*) from logged
