-- For found centroids: whether the lane sees the thread now, as the labels of one unit that it sees, closed by the thread's own flags.
-- A centroid is built from what its lane sees without any claim, so that is what is compared.
with wanted as materialized
( select p.*
  from visible.projected_centroid p
  where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s) )
, lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from (select distinct lane from wanted) l )
select w.owner_id, w.version_key
     , coalesce(w.visibility, seen.visibility) as visibility
     , coalesce(w.readiness, seen.readiness) as readiness
     , coalesce(w.publication_state, seen.publication_state) as publication_state
     , coalesce(w.risk_class, seen.risk_class) as risk_class
     , coalesce(w.authority, seen.authority) as authority
     , seen.lifecycle_stage, seen.data_classification
from wanted w
join lane using (lane)
cross join lateral
-- The unit that the reader sees first, and when only its claims show it that one, member by member until the lane sees one.
( select f.*
  from
  ( select w.seen_visibility as visibility, w.seen_readiness as readiness, w.seen_publication_state as publication_state
         , w.seen_risk_class as risk_class, w.seen_authority as authority, w.seen_lifecycle_stage as lifecycle_stage
         , w.seen_data_classification as data_classification
    where cong.sees(w.seen_visibility, w.seen_readiness, w.seen_publication_state, w.seen_risk_class, w.seen_authority
      , w.seen_lifecycle_stage, w.seen_data_classification, lane.allowed)
    union all
    select m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage, m.data_classification
    from visible.thread_membership m
    where m.thread_id = w.thread_id
      and cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
        , m.data_classification, lane.allowed) ) f
  limit 1 ) seen
