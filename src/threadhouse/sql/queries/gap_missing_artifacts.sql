-- Expected artefacts that nobody has yet, of threads that are there.
select e.thread_id, e.lifecycle_stage, e.description
from source.expected_artifact_missing e
join source.semantic_thread t using (thread_id)
where e.status = 'open'
