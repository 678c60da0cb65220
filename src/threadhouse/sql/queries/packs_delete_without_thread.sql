delete from nao.thread_context_pack_cache c
where not exists (select from source.semantic_thread t where t.thread_id = c.thread_id)
