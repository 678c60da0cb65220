-- Null counts every thread.
select count(*) from source.semantic_thread where %(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s)
