-- What belongs to a scope besides itself: documents that an earlier publish owes, units of its documents, those that do not show included,
-- documents of its units.
with owed as (select document_id from nao.projection_owed_document)
select 'document' as kind, document_id as id from owed
union
select 'unit', logical_unit_id from source.information_unit where document_id = any (%(documents)s || array(select document_id from owed))
union
select 'unit', logical_unit_id from nao.held_unit where document_id = any (%(documents)s || array(select document_id from owed))
union
select 'document', document_id from source.information_unit where logical_unit_id = any (%(units)s)
