-- The last run of each kind, why it failed, and when that kind last succeeded.
select distinct on (r.kind) r.kind, r.run_id, r.started_at, r.finished_at, r.status, r.counters ->> 'reason' as reason
     , (select max(s.finished_at) from nao.pipeline_run s where s.kind = r.kind and s.status = 'succeeded') as succeeded_at
     , now() as asked_at
from nao.pipeline_run r
order by r.kind, r.started_at desc, r.run_id desc
