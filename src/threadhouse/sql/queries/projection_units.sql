-- Everything about live units but their text: enough to tell what changed without reading the corpus. Null selects all.
select logical_unit_id as owner_id
     , unit_version_id::text as version_key
     , content_hash
     , document_id
     , canonical_address
     , unit_kind
     , revision as source_revision
     , title
     , tags
     , path
     , language
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
from source.information_unit
where %(owner_ids)s::text[] is null or logical_unit_id = any (%(owner_ids)s)
