-- Null selects those of every thread.
select thread_id, lifecycle_stage, description, status
from source.expected_artifact_missing
where %(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s)
order by thread_id, lifecycle_stage, description
