-- A cause that is known is counted; one that was fixed and comes back is reopened.
insert into nao.search_gap_signal as s (signal_id, kind, cause_key, thread_id, lane, evidence)
select signal_id, kind, cause_key, thread_id, lane, evidence
from jsonb_to_recordset(%(signals)s) as given (signal_id uuid, kind text, cause_key text, thread_id text, lane text, evidence jsonb)
on conflict (kind, cause_key) do update set
  occurrence_count = s.occurrence_count + 1
, last_seen_at = clock_timestamp()
, evidence = s.evidence || excluded.evidence
, status = case s.status when 'fixed' then 'reopened' else s.status end
