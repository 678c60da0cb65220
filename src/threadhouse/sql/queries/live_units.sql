-- For found units: the version that the collection is meant to hold, and the labels of this moment.
select p.owner_id, p.version_key
     , i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
from nao.vector_projection p
join source.information_unit i on i.logical_unit_id = p.owner_id
where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s)
