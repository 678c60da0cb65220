-- Texts of units that the current role may see, as they are now.
select logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal
     , visibility, readiness, publication_state, risk_class, authority, data_classification
     , unit_version_id, revision, title, body, content_hash, created_at
     , document_title, path, language, coalesce(tags, '{}') as tags
from visible.information_unit
where logical_unit_id = any (%(unit_ids)s::text[])
order by logical_unit_id
