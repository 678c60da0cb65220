-- Units of these ids that belong to another document.
select u.logical_unit_id, u.document_id
from public.tac_logical_unit u
where u.logical_unit_id = any (%(unit_ids)s)
  and u.document_id <> %(document_id)s
order by u.logical_unit_id
limit 1
