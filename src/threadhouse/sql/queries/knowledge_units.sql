-- In order of id, so that two runs meet the same rows in the same batches. Null selects every unit.
select logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal
     , visibility, readiness, publication_state, risk_class, authority, data_classification
     , unit_version_id, revision, title, body, content_hash, created_at
     , document_title, path, language, coalesce(tags, '{}') as tags
from source.information_unit
where %(unit_ids)s::text[] is null or logical_unit_id = any (%(unit_ids)s)
order by logical_unit_id
