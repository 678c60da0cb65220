-- What a reader may know of threads for ranking: everything counted over the units that it sees.
with rights as materialized
( select cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[]) as allowed )
select t.thread_id, t.input_revision, t.title, t.canonical_address
     , seen.last_activity_at, seen.authorities, seen.covered_stages
     , ( select h.status from visible.thread_health h where h.thread_id = t.thread_id and (h.lane is null or h.lane = any (%(lane)s::text[]))
         order by h.observed_at desc, h.signal_id desc limit 1 ) as health
     , coalesce(( select array_agg(distinct e.lifecycle_stage) from visible.expected_artifact_missing e
         where e.thread_id = t.thread_id and e.status = 'open'
           and cong.lifecycle_stage_bit(e.lifecycle_stage) & ~(select allowed from rights) = 0 ), '{}') as missing_stages
from unnest(%(thread_ids)s::text[]) as asked (thread_id)
cross join lateral
( select v.thread_id, v.input_revision, v.title, v.canonical_address
       , v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority
  from visible.semantic_thread v where v.thread_id = asked.thread_id offset 0 ) t
cross join lateral
( select max(m.version_created_at) as last_activity_at, array_agg(distinct m.authority) as authorities
       , array_agg(distinct m.lifecycle_stage) as covered_stages
  from visible.thread_membership m
  where m.thread_id = t.thread_id
    and cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
      , m.data_classification, (select allowed from rights)) ) seen
where seen.last_activity_at is not null
  and cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, (select allowed from rights))
order by t.thread_id
