-- Names that nothing has.
select 'document' as kind, id from unnest(%(documents)s::text[]) as id
where not exists (select from source.production_document where document_id = id)
union all
select 'unit', id from unnest(%(units)s::text[]) as id
where not exists (select from source.information_unit where logical_unit_id = id)
union all
select 'thread', id from unnest(%(threads)s::text[]) as id
where not exists (select from source.semantic_thread where thread_id = id)
