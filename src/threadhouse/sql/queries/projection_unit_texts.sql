select logical_unit_id as owner_id, unit_version_id::text as version_key, title, body
from source.information_unit
where logical_unit_id = any (%(owner_ids)s)
