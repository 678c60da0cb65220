-- One lookup in one moment: what a pack would be built from now, what the stored one was built from, and whether the reader may still
-- see each unit, in the version given. Lists of allowed values come from the reader's policy; missing hides.
with asked as
( select * from unnest(%(unit_ids)s::text[], %(version_ids)s::uuid[]) as a (logical_unit_id, unit_version_id) )
, found as
( select a.logical_unit_id
       , i.unit_version_id = a.unit_version_id as is_live
       , coalesce(
           i.visibility = any (%(visibility)s::text[])
       and i.readiness = any (%(readiness)s::text[])
       and i.publication_state = any (%(publication_state)s::text[])
       and i.risk_class = any (%(risk_class)s::text[])
       and i.authority = any (%(authority)s::text[])
       and i.lifecycle_stage = any (%(lifecycle_stage)s::text[])
       and i.data_classification = any (%(data_classification)s::text[])
       and i.data_classification not in ('secret', 'blocked'), false) as is_visible
  from asked a join source.information_unit i using (logical_unit_id) )
select t.input_revision as current_input_revision
     , (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp()) as current_policy_version
     , c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version
     , f.live_count, f.hidden
from (select count(*) filter (where is_live) as live_count
           , coalesce(array_agg(logical_unit_id) filter (where not is_visible), '{}') as hidden
      from found) f
left join source.semantic_thread t on t.thread_id = %(thread_id)s
left join nao.thread_context_pack_cache c on c.thread_id = t.thread_id and c.lane = %(lane)s
