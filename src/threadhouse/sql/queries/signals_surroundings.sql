-- Memberships of the found units, and every thread that a reader sees among theirs and the named ones, with what it was last built from.
with membership as
( select m.logical_unit_id, m.thread_id, m.confidence * case m.role when 'canonical' then 1 else 0.95 end as weight
  from source.thread_membership m
  where m.logical_unit_id = any (%(unit_ids)s::text[]) and m.status <> 'rejected' )
, asked as
( select thread_id from membership union select unnest(%(thread_ids)s::text[]) )
select t.thread_id, t.input_revision
     , coalesce((select array_agg(m.logical_unit_id order by m.logical_unit_id) from membership m where m.thread_id = t.thread_id), '{}') as unit_ids
     , coalesce((select array_agg(m.weight order by m.logical_unit_id) from membership m where m.thread_id = t.thread_id), '{}') as weights
from asked
cross join lateral
( select t.thread_id, t.input_revision, t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority
  from source.semantic_thread t where t.thread_id = asked.thread_id offset 0 ) as t
cross join lateral
  ( select from source.thread_membership m
    cross join lateral
    ( select u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
      from source.information_unit u
      where u.logical_unit_id = m.logical_unit_id
      offset 0 ) as u
    where m.thread_id = t.thread_id and m.status <> 'rejected'
      and u.visibility = any (%(visibility)s::text[])
      and u.readiness = any (%(readiness)s::text[])
      and u.publication_state = any (%(publication_state)s::text[])
      and u.risk_class = any (%(risk_class)s::text[])
      and u.authority = any (%(authority)s::text[])
      and u.lifecycle_stage = any (%(lifecycle_stage)s::text[])
      and u.data_classification = any (%(data_classification)s::text[])
    limit 1 ) as seen_unit
where (t.visibility is null or t.visibility = any (%(visibility)s))
  and (t.readiness is null or t.readiness = any (%(readiness)s))
  and (t.publication_state is null or t.publication_state = any (%(publication_state)s))
  and (t.risk_class is null or t.risk_class = any (%(risk_class)s))
  and (t.authority is null or t.authority = any (%(authority)s))
order by t.thread_id
