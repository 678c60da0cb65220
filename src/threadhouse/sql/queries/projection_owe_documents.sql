insert into nao.projection_owed_document (document_id)
select unnest(%(document_ids)s::text[])
on conflict (document_id) do nothing
