-- Whether the reader may still see each document, in the revision given. Documents whose units took over are no longer live; one that is
-- gone or that the current role may not see is hidden as well.
with rights as materialized
( select cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[]) as allowed )
, asked as
( select * from unnest(%(document_ids)s::text[], %(revisions)s::int[]) as a (document_id, revision) )
select count(*) filter (where d.revision = a.revision and not d.has_units) as live_count
     , coalesce(array_agg(a.document_id) filter (where not
         cong.sees(d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority, d.lifecycle_stage
      , d.data_classification, (select allowed from rights))), '{}') as hidden
from asked a
left join lateral
( select v.revision, v.has_units, v.visibility, v.readiness, v.publication_state, v.risk_class, v.authority, v.lifecycle_stage
       , v.data_classification
  from visible.production_document v where v.document_id = a.document_id offset 0 ) d on true
