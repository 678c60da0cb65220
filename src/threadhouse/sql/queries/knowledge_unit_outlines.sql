-- Live units without their texts. Null selects every unit.
select logical_unit_id, unit_version_id, language
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
from source.information_unit
where %(unit_ids)s::text[] is null or logical_unit_id = any (%(unit_ids)s)
order by logical_unit_id
