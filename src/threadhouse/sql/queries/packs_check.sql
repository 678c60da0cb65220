-- One lookup in one moment: what a pack would be built from now, what the stored one was built from, and whether the reader may still
-- see each unit, in the version given. What is gone or what the current role may not see is hidden as well.
with rights as materialized
( select cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[]) as allowed )
, asked as
( select * from unnest(%(unit_ids)s::text[], %(version_ids)s::uuid[]) as a (logical_unit_id, unit_version_id) )
, found as
( select a.logical_unit_id
       , i.unit_version_id = a.unit_version_id as is_live
       , cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage
      , i.data_classification, (select allowed from rights)) as is_visible
  from asked a
  left join lateral
  ( select v.unit_version_id, v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority, v.lifecycle_stage
         , v.data_classification
    from visible.information_unit v where v.logical_unit_id = a.logical_unit_id offset 0 ) i on true )
select t.input_revision as current_input_revision
     , cong.policy_in_force() as current_policy_version
     , c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version
     , f.live_count, f.hidden
from (select count(*) filter (where is_live) as live_count
           , coalesce(array_agg(logical_unit_id) filter (where not is_visible), '{}') as hidden
      from found) f
left join visible.semantic_thread t on t.thread_id = %(thread_id)s
left join visible.thread_context_pack_key c on c.thread_id = %(thread_id)s and c.lane = %(lane)s and c.space_id = %(space_id)s and t.thread_id is not null
