-- Every unit of every servable pack against its current labels and the policy in force; allow-lists only, missing hides.
with policy as materialized
( select audience, policy_version, cong.allowed_by_policy(audience, '{}') as allowed
  from cong.audience_filter_policy where policy_version = cong.policy_in_force() )
, member as
( select c.thread_id, c.lane, u ->> 'logical_unit_id' as logical_unit_id, u ->> 'canonical_address' as canonical_address
       , u ->> 'unit_version_id' as unit_version_id
  from nao.thread_context_pack_cache c
  join source.semantic_thread t using (thread_id)
  cross join lateral jsonb_array_elements((c.pack -> 'canonical_units') || (c.pack -> 'supporting_units') || (c.pack -> 'latest_reports')) as u
  where c.input_revision = t.input_revision and c.policy_version = cong.policy_in_force() )
select distinct m.thread_id, m.lane, m.canonical_address
     , case when i.logical_unit_id is null then 'the unit is gone'
            when i.unit_version_id::text <> m.unit_version_id then 'the version is not the live one'
            else 'the lane may not see it' end as reason
from member m
left join source.information_unit i using (logical_unit_id)
left join policy p on p.audience = m.lane
where i.logical_unit_id is null
   or i.unit_version_id::text <> m.unit_version_id
   or not cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage
      , i.data_classification, coalesce(p.allowed, 0))
