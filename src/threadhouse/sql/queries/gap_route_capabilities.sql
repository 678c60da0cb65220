-- Gaps that need a capability, once each before D4; one that was done and whose gap came back is open again.
insert into nao.capability_intake_item as c (item_id, signal_id, capability, title, evidence)
select md5('d4/' || given.signal_id)::uuid, given.signal_id, given.capability, given.title, given.evidence
from jsonb_to_recordset(%(asked)s) as given (signal_id uuid, capability text, title text, evidence jsonb)
join nao.search_gap_signal s using (signal_id)
where s.status <> 'fixed'
  and not exists
  ( select from nao.capability_intake_item k
    where k.signal_id = s.signal_id and not (k.status = 'done' and s.opening > 1 and k.updated_at < s.changed_at) )
on conflict (signal_id) do update set
  status = 'open', capability = excluded.capability, title = excluded.title, evidence = excluded.evidence, updated_at = clock_timestamp()
where c.status = 'done'
