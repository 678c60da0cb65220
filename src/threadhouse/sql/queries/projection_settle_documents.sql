-- Null settles all.
delete from nao.projection_owed_document
where %(document_ids)s::text[] is null or document_id = any (%(document_ids)s)
