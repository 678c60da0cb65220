-- What belongs to a scope besides itself: units of its documents, documents of its units, documents that an earlier publish owes.
select 'unit' as kind, logical_unit_id as id from source.information_unit where document_id = any (%(documents)s)
union
select 'document', document_id from source.information_unit where logical_unit_id = any (%(units)s)
union
select 'document', document_id from nao.projection_owed_document
