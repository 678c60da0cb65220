select asked.logical_unit_id
from unnest(%(unit_ids)s::text[]) as asked (logical_unit_id)
where not exists (select from public.tac_logical_unit u where u.logical_unit_id = asked.logical_unit_id)
