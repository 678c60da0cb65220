-- Memberships of the found units, and every thread that a reader sees among theirs and the named ones, with what it was last built from.
with membership as
( select m.logical_unit_id, m.thread_id, m.confidence * case m.role when 'canonical' then 1 else 0.5 end as weight
  from source.thread_membership m
  where m.logical_unit_id = any (%(unit_ids)s::text[]) and m.status <> 'rejected' )
, asked as
( select thread_id from membership union select unnest(%(thread_ids)s::text[]) )
select t.thread_id, t.input_revision
     , coalesce((select array_agg(m.logical_unit_id order by m.logical_unit_id) from membership m where m.thread_id = t.thread_id), '{}') as unit_ids
     , coalesce((select array_agg(m.weight order by m.logical_unit_id) from membership m where m.thread_id = t.thread_id), '{}') as weights
from asked
join source.semantic_thread t using (thread_id)
where (t.visibility is null or t.visibility = any (%(visibility)s::text[]))
  and (t.readiness is null or t.readiness = any (%(readiness)s::text[]))
  and (t.publication_state is null or t.publication_state = any (%(publication_state)s::text[]))
  and (t.risk_class is null or t.risk_class = any (%(risk_class)s::text[]))
  and (t.authority is null or t.authority = any (%(authority)s::text[]))
  and exists
  ( select from source.thread_membership m
    join source.information_unit u using (logical_unit_id)
    where m.thread_id = t.thread_id and m.status <> 'rejected'
      and u.visibility = any (%(visibility)s)
      and u.readiness = any (%(readiness)s)
      and u.publication_state = any (%(publication_state)s)
      and u.risk_class = any (%(risk_class)s)
      and u.authority = any (%(authority)s)
      and u.lifecycle_stage = any (%(lifecycle_stage)s::text[])
      and u.data_classification = any (%(data_classification)s::text[]) )
order by t.thread_id
