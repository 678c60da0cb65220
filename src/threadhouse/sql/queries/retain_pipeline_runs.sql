-- Ended runs, but never the last one of a kind nor its last good one.
select r.ctid
from nao.pipeline_run r
where r.started_at < %(before)s and r.status <> 'running'
  and exists (select from nao.pipeline_run n where n.kind = r.kind and n.started_at > r.started_at)
  and (r.status <> 'succeeded'
    or exists (select from nao.pipeline_run n where n.kind = r.kind and n.status = 'succeeded' and n.started_at > r.started_at))
