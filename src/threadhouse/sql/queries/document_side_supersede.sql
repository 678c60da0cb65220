-- Units that the text of their document no longer has; the same that a load makes of a unit that only older files have.
update public.tac_logical_unit
set readiness = 'superseded'
where document_id = %(document_id)s and logical_unit_id <> all (%(unit_ids)s)
  and readiness is distinct from 'superseded'
