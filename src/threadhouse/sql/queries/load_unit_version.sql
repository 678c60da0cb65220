insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body, created_at)
select unit_version_id, logical_unit_id, revision, title, body, coalesce(created_at, now())
from load_unit_version
order by row_no
