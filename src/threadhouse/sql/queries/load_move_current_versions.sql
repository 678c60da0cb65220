-- The highest revision is the live one. Only units that just got a version are looked at: a pointer that somebody set stays.
update public.tac_logical_unit u
set current_version_id = newest.unit_version_id
from ( select distinct on (logical_unit_id) logical_unit_id, unit_version_id
       from public.tac_unit_version
       where logical_unit_id = any (%(unit_ids)s)
       order by logical_unit_id, revision desc ) as newest
where u.logical_unit_id = newest.logical_unit_id
  and u.current_version_id is distinct from newest.unit_version_id
