-- One lookup in one moment: what a pack would be built from now, what the stored one was built from, and whether the reader may still
-- see each unit, in the version given, and everything else that the pack names. What is gone or what the current role may not see is
-- hidden as well. `offset 0` keeps the planner from reading everything that the role may see to look a few ends up in it.
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
, named as
( select e.id
  from unnest(%(end_kinds)s::text[], %(end_ids)s::text[]) as e (kind, id)
  where not case e.kind
    when 'unit' then exists
    ( select from visible.information_unit v
      where v.logical_unit_id = e.id
        and cong.sees(v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority, v.lifecycle_stage
          , v.data_classification, (select allowed from rights))
      offset 0 )
    when 'thread' then exists
    ( select from visible.semantic_thread v
      where v.thread_id = e.id
        and cong.leaves_open(v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority, (select allowed from rights))
        and exists
        ( select from visible.thread_membership m
          where m.thread_id = v.thread_id
            and cong.sees(m.visibility, m.readiness, m.publication_state, m.risk_class, m.authority, m.lifecycle_stage
              , m.data_classification, (select allowed from rights))
          offset 0 )
      offset 0 )
    when 'document' then exists
    ( select from visible.production_document v
      where v.document_id = e.id
        and case when v.has_units
          then exists
          ( select from visible.information_unit u
            where u.document_id = v.document_id
              and cong.sees(u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage
                , u.data_classification, (select allowed from rights))
            offset 0 )
          else cong.sees(v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority, v.lifecycle_stage
            , v.data_classification, (select allowed from rights)) end
      offset 0 )
    when 'stage' then coalesce(cong.lifecycle_stage_bit(e.id) & ~((select allowed from rights) & (select cong.allowed_now())) = 0, false)
    else false end )
select t.input_revision as current_input_revision
     , cong.policy_in_force() as current_policy_version
     , c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version
     , f.live_count, f.hidden
     , array(select id from named order by id) as hidden_ends
from (select count(*) filter (where is_live) as live_count
           , coalesce(array_agg(logical_unit_id) filter (where not is_visible), '{}') as hidden
      from found) f
left join visible.semantic_thread t on t.thread_id = %(thread_id)s
left join visible.thread_context_pack_key c on c.thread_id = %(thread_id)s and c.lane = %(lane)s and c.space_id = %(space_id)s and t.thread_id is not null
