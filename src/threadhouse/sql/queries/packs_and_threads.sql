select (select count(*) from nao.thread_context_pack_cache) as packs, (select count(*) from source.semantic_thread) as threads
