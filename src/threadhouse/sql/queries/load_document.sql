-- A stated revision older than the stored one is an older file: it changes nothing.
insert into public.production_document as d
( document_id, path, title, tags, body, language, revision, source_digest, lifecycle_stage, data_classification
, visibility, readiness, publication_state, risk_class, authority, updated_at )
select s.document_id, s.path, s.title, s.tags, s.body, s.language, coalesce(s.stated_revision, s.revision), s.source_digest
     , s.lifecycle_stage, s.data_classification, s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority
     , coalesce(s.updated_at, now())
from load_document s
left join public.production_document t using (document_id)
where t.document_id is null
   or ( (s.stated_revision is null or s.stated_revision >= t.revision)
    and ( s.path, s.title, s.tags, s.body, s.language, coalesce(s.stated_revision, t.revision), s.lifecycle_stage, s.data_classification
        , s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority )
      is distinct from
        ( t.path, t.title, t.tags, t.body, t.language, t.revision, t.lifecycle_stage, t.data_classification
        , t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority ) )
on conflict (document_id) do update set
  path = excluded.path
, title = excluded.title
, tags = excluded.tags
, body = excluded.body
, language = excluded.language
-- Unstated: the stored number, which the trigger raises when the text changed.
, revision = coalesce((select s.stated_revision from load_document s where s.document_id = d.document_id), d.revision)
, source_digest = excluded.source_digest
, lifecycle_stage = excluded.lifecycle_stage
, data_classification = excluded.data_classification
, visibility = excluded.visibility
, readiness = excluded.readiness
, publication_state = excluded.publication_state
, risk_class = excluded.risk_class
, authority = excluded.authority
returning (xmax = 0) as was_inserted
