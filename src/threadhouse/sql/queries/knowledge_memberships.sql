-- Null selects those of every thread.
select thread_id, logical_unit_id, role, confidence, status, evidence
from source.thread_membership
where %(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s)
order by thread_id, logical_unit_id
