select logical_unit_id, revision, content_hash
from public.tac_unit_version
where logical_unit_id = any (%(unit_ids)s)
