select not exists (select from source.semantic_thread) and exists (select from nao.thread_context_pack_cache)
