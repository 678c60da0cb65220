insert into nao.health_signal as t (signal_id, thread_id, kind, status, logical_unit_id, evidence, observed_at)
select signal_id, thread_id, kind, status, logical_unit_id, evidence, observed_at
from load_health_signal s
where not exists
( select from nao.health_signal o
  where o.signal_id = s.signal_id
    and (s.thread_id, s.kind, s.status, s.logical_unit_id, s.evidence, s.observed_at)
      is not distinct from (o.thread_id, o.kind, o.status, o.logical_unit_id, o.evidence, o.observed_at) )
on conflict (signal_id) do update set
  thread_id = excluded.thread_id
, kind = excluded.kind
, status = excluded.status
, logical_unit_id = excluded.logical_unit_id
, evidence = excluded.evidence
, observed_at = excluded.observed_at
returning (xmax = 0) as was_inserted
