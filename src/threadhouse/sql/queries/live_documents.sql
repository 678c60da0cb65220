-- For found documents: the version that the collection is meant to hold, and the labels of this moment. Units that took over hide.
select p.owner_id, p.version_key
     , d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority, d.lifecycle_stage, d.data_classification
from nao.vector_projection p
join source.production_document d on d.document_id = p.owner_id and not d.has_units
where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s)
