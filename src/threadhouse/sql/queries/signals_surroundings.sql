-- Memberships of the found units, and every thread that a reader sees among theirs and the named ones, with what it was last built from.
with rights as materialized
( select cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[]) as allowed )
, membership as materialized
( select m.logical_unit_id, m.thread_id, m.confidence * case m.role when 'canonical' then 1 else 0.95 end as weight
  from unnest(%(unit_ids)s::text[]) as wanted (logical_unit_id)
  cross join lateral
  ( select * from visible.thread_membership v where v.logical_unit_id = wanted.logical_unit_id offset 0 ) m
  where cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
      , m.data_classification, (select allowed from rights)) )
, found as materialized
( select m.thread_id, array_agg(m.logical_unit_id order by m.logical_unit_id) as unit_ids, array_agg(m.weight order by m.logical_unit_id) as weights
  from membership m
  group by m.thread_id )
, asked as
( select thread_id from found union select unnest(%(thread_ids)s::text[]) )
select t.thread_id, t.input_revision, coalesce(found.unit_ids, '{}') as unit_ids, coalesce(found.weights, '{}') as weights
from asked
left join found using (thread_id)
cross join lateral
( select t.* from visible.semantic_thread t where t.thread_id = asked.thread_id offset 0 ) as t
cross join lateral
( select from
  ( select
    where cong.sees(t.seen_visibility, t.seen_readiness, t.seen_publication_state, t.seen_risk_class, t.seen_authority
      , t.seen_lifecycle_stage, t.seen_data_classification, (select allowed from rights))
    union all
    select from visible.thread_membership m
    where m.thread_id = t.thread_id
      and cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
        , m.data_classification, (select allowed from rights)) ) f
  limit 1 ) as seen_unit
where cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, (select allowed from rights))
order by t.thread_id
