-- States that are gaps: a new one is opened, one that was fixed and is there still or again is reopened, an open one stays as it is.
insert into nao.search_gap_signal as s (signal_id, kind, cause_key, thread_id, lane, evidence)
select signal_id, kind, cause_key, thread_id, lane, evidence
from jsonb_to_recordset(%(states)s) as given
  (signal_id uuid, kind text, cause_key text, thread_id text, lane text, evidence jsonb, opens boolean)
where opens
  and not exists
  ( select from nao.search_gap_signal o
    where o.kind = given.kind and o.cause_key = given.cause_key and o.status <> 'fixed' )
on conflict (kind, cause_key) do update set
  occurrence_count = s.occurrence_count + 1
, last_seen_at = clock_timestamp()
, evidence = s.evidence || excluded.evidence
, status = 'reopened'
where s.status = 'fixed'
