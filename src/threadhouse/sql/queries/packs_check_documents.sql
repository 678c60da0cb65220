-- Whether the reader may still see each document, in the revision given. Documents whose units took over are no longer live.
with asked as
( select * from unnest(%(document_ids)s::text[], %(revisions)s::int[]) as a (document_id, revision) )
select count(*) filter (where d.revision = a.revision and not d.has_units) as live_count
     , coalesce(array_agg(document_id) filter (where not coalesce(
           d.visibility = any (%(visibility)s::text[])
       and d.readiness = any (%(readiness)s::text[])
       and d.publication_state = any (%(publication_state)s::text[])
       and d.risk_class = any (%(risk_class)s::text[])
       and d.authority = any (%(authority)s::text[])
       and d.lifecycle_stage = any (%(lifecycle_stage)s::text[])
       and d.data_classification = any (%(data_classification)s::text[])
       and d.data_classification not in ('secret', 'blocked'), false)), '{}') as hidden
from asked a join source.production_document d using (document_id)
