-- Null selects every thread.
select thread_id, canonical_address, title, purpose, description
     , visibility, readiness, publication_state, risk_class, authority
     , input_revision, owner
     , coalesce(aliases, '{}') as aliases, coalesce(labels, '{}') as labels, coalesce(anchors, '{}') as anchors
from source.semantic_thread
where %(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s)
order by thread_id
