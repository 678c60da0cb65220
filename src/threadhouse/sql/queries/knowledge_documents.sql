-- Null selects every document.
select document_id, path, title, body, language, revision
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
     , content_hash, updated_at, has_units, coalesce(tags, '{}') as tags
from source.production_document
where %(document_ids)s::text[] is null or document_id = any (%(document_ids)s)
order by document_id
