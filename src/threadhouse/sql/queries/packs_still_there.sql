-- Of units that a reader may not see or that are gone: those that are there.
select logical_unit_id from source.information_unit where logical_unit_id = any (%(unit_ids)s::text[]) order by logical_unit_id
