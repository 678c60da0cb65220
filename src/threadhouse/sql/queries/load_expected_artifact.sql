insert into public.expected_artifact_missing as t (thread_id, lifecycle_stage, description, status)
select thread_id, lifecycle_stage, description, status
from load_expected_artifact s
where not exists
( select from public.expected_artifact_missing o
  where (o.thread_id, o.lifecycle_stage, o.description, o.status) = (s.thread_id, s.lifecycle_stage, s.description, s.status) )
on conflict (thread_id, lifecycle_stage, description) do update set status = excluded.status
returning (xmax = 0) as was_inserted
