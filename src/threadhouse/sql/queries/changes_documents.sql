-- The documents of units.
select logical_unit_id, document_id from source.information_unit where logical_unit_id = any (%(units)s)
