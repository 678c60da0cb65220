-- Texts of documents that the current role may see, as they are now; those whose units took over have none.
select document_id, path, title, body, language, revision
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
     , content_hash, updated_at, has_units, coalesce(tags, '{}') as tags
from visible.production_document
where document_id = any (%(document_ids)s::text[]) and not has_units
order by document_id
