-- What a reader may know of threads for ranking: everything counted over the units that it sees.
select t.thread_id, t.input_revision, t.title, t.canonical_address
     , seen.last_activity_at, seen.authorities, seen.covered_stages
     , ( select h.status from nao.health_signal h where h.thread_id = t.thread_id and h.kind = 'thread_health'
         order by h.observed_at desc, h.signal_id desc limit 1 ) as health
     , coalesce(( select array_agg(distinct e.lifecycle_stage) from source.expected_artifact_missing e
         where e.thread_id = t.thread_id and e.status = 'open' and e.lifecycle_stage = any (%(lifecycle_stage)s::text[]) ), '{}') as missing_stages
from source.semantic_thread t
cross join lateral
( select max(u.created_at) as last_activity_at, array_agg(distinct u.authority) as authorities
       , array_agg(distinct u.lifecycle_stage) as covered_stages
  from source.thread_membership m
  cross join lateral
  ( select u.created_at, u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
    from source.information_unit u
    where u.logical_unit_id = m.logical_unit_id
    offset 0 ) as u
  where m.thread_id = t.thread_id and m.status <> 'rejected'
    and u.visibility = any (%(visibility)s::text[])
    and u.readiness = any (%(readiness)s::text[])
    and u.publication_state = any (%(publication_state)s::text[])
    and u.risk_class = any (%(risk_class)s::text[])
    and u.authority = any (%(authority)s::text[])
    and u.lifecycle_stage = any (%(lifecycle_stage)s)
    and u.data_classification = any (%(data_classification)s::text[]) ) seen
where t.thread_id = any (%(thread_ids)s::text[]) and seen.last_activity_at is not null
order by t.thread_id
