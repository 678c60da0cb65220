-- Which of everything else that a pack names the reader may not see now: other ends of links, what was left out, stages with gaps. Apart from
-- `packs_check`, because most packs of small hubs name nothing else, and setting all of this up takes longer than a check of their units.
-- `offset 0` keeps the planner from reading everything that the role may see to look a few ends up in it.
with rights as materialized
( select cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[]) as allowed )
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
select array(select id from named order by id) as hidden_ends
