-- Every live unit without its text.
select logical_unit_id, unit_version_id, language
     , visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
from source.information_unit
order by logical_unit_id
