-- For found units that the current role may see: the version that the collection is meant to hold, and the labels of this moment.
-- A unit whose document went back to the legacy side has no version here: whoever found its points looks again.
select p.owner_id, p.version_key
     , p.visibility, p.readiness, p.publication_state, p.risk_class, p.authority, p.lifecycle_stage, p.data_classification
from visible.projected_unit p
where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s)
union all
select m.logical_unit_id, '', null, null, null, null, null, null, null
from visible.moved_unit m
where m.logical_unit_id = any (%(owner_ids)s)
