-- For found centroids: whether the lane sees the thread now, as the labels of one unit that it sees, closed by the thread's own flags.
-- The lane's row of the policy in force is compared as it is; allow-lists only, missing hides.
with wanted as materialized
( select p.owner_id, p.version_key
       , left(p.owner_id, length(p.owner_id) - length(split_part(p.owner_id, '/', -1)) - 1) as thread_id
       , split_part(p.owner_id, '/', -1) as lane
  from nao.vector_projection p
  where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s) )
, policy as
( select * from cong.audience_filter_policy
  where policy_version = (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp()) )
select w.owner_id, w.version_key
     , coalesce(t.visibility, seen.visibility) as visibility
     , coalesce(t.readiness, seen.readiness) as readiness
     , coalesce(t.publication_state, seen.publication_state) as publication_state
     , coalesce(t.risk_class, seen.risk_class) as risk_class
     , coalesce(t.authority, seen.authority) as authority
     , seen.lifecycle_stage, seen.data_classification
from wanted w
join source.semantic_thread t on t.thread_id = w.thread_id
join policy p on p.audience = w.lane
cross join lateral
-- Member by member until one is seen: without the inner limit the planner reads every unit of the hub for every
-- thread, without the order every membership.
( select i.*
  from source.thread_membership m
  cross join lateral
  ( select * from source.information_unit i
    where i.logical_unit_id = m.logical_unit_id
      and i.visibility = any (p.visibility)
      and i.readiness = any (p.readiness)
      and i.publication_state = any (p.publication_state)
      and i.risk_class = any (p.risk_class)
      and i.authority = any (p.authority)
      and i.lifecycle_stage = any (p.lifecycle_stage)
      and i.data_classification = any (p.data_classification)
      and i.data_classification not in ('secret', 'blocked')
    limit 1 ) i
  where m.thread_id = w.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
  order by m.logical_unit_id
  limit 1 ) seen
