-- For found centroids: whether the lane sees the thread now, as the labels of one unit that it sees, closed by the thread's own flags.
-- A centroid is built from what its lane sees without any claim, so that is what is compared.
with wanted as materialized
( select p.owner_id, p.version_key, p.thread_id, p.lane
  from visible.projected_centroid p
  where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s) )
, lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from (select distinct lane from wanted) l )
select w.owner_id, w.version_key
     , coalesce(t.visibility, seen.visibility) as visibility
     , coalesce(t.readiness, seen.readiness) as readiness
     , coalesce(t.publication_state, seen.publication_state) as publication_state
     , coalesce(t.risk_class, seen.risk_class) as risk_class
     , coalesce(t.authority, seen.authority) as authority
     , seen.lifecycle_stage, seen.data_classification
from wanted w
join lane using (lane)
cross join lateral
( select s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority
  from visible.semantic_thread s where s.thread_id = w.thread_id offset 0 ) t
cross join lateral
-- Member by member until one is seen.
( select m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage, m.data_classification
  from visible.thread_membership m
  where m.thread_id = w.thread_id
    and cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
      , m.data_classification, lane.allowed)
  limit 1 ) seen
