-- For found documents that the current role may see: the version that the collection is meant to hold, and the labels of this moment.
-- Units that took over hide. A document that changed sides has no version here: whoever found its old points looks again.
select p.owner_id, p.version_key
     , p.visibility, p.readiness, p.publication_state, p.risk_class, p.authority, p.lifecycle_stage, p.data_classification
from visible.projected_document p
where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s)
union all
select m.document_id, '', null, null, null, null, null, null, null
from visible.moved_document m
where m.document_id = any (%(owner_ids)s)
