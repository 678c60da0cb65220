-- Takes some canaries away from everybody, as a right is withdrawn while an answer is on its way.
with unit as
( update public.tac_logical_unit set data_classification = 'blocked' where logical_unit_id = any (%(marks)s) )
update public.production_document set data_classification = 'blocked' where document_id = any (%(marks)s)
