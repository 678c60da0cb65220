-- A leak: security signal, contract log, governance and risk review, all or none. The pack that would have leaked goes, so that the next
-- reader gets one that is built anew. An item that is still open for the same cause is not doubled; a closed one stays closed.
with signal as
( insert into nao.search_gap_signal as s (signal_id, kind, cause_key, thread_id, lane, severity, evidence)
  values (%(signal_id)s, 'wrong_audience_result', %(cause_key)s, %(thread_id)s, %(lane)s, 'security', %(evidence)s)
  on conflict (kind, cause_key) do update set
    occurrence_count = s.occurrence_count + 1
  , last_seen_at = clock_timestamp()
  , evidence = excluded.evidence
  , status = case s.status when 'fixed' then 'reopened' else s.status end
  returning signal_id )
, logged as
( insert into nao.consumer_contract_log (entry_id, kind, subject, lane, pack_id, details, signal_id)
  select %(entry_id)s, 'wrong_audience_result', %(subject)s, %(lane)s, %(pack_id)s::uuid, %(evidence)s, signal.signal_id from signal
  on conflict (entry_id) do nothing )
, queued as
( insert into nao.governance_queue_item (item_id, kind, signal_id, title, evidence)
  select item.item_id, item.kind, signal.signal_id, %(title)s, %(evidence)s
  from signal, (values (%(governance_id)s::uuid, 'governance'), (%(risk_review_id)s::uuid, 'risk_review')) as item (item_id, kind)
  where not exists
  ( select from nao.governance_queue_item q
    where q.signal_id = signal.signal_id and q.kind = item.kind and q.status = 'open' )
  on conflict (item_id) do nothing )
delete from nao.thread_context_pack_cache where thread_id = %(thread_id)s and lane = %(lane)s
