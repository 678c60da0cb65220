-- Documents that still live in the legacy collection, and whether their units have taken over. Null selects all.
select document_id as owner_id
     , document_id || '@' || revision as version_key
     , content_hash
     , document_id
     , revision as source_revision
     , title
     , tags
     , path
     , language
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
     , has_units
     , body ~ '\S' as has_text
from source.production_document
where %(owner_ids)s::text[] is null or document_id = any (%(owner_ids)s)
