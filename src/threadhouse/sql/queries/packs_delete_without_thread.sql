-- The notes of what was built go along, or a thread that comes back under the same id would count as built. Null looks at every thread.
with forgotten as
( delete from nao.thread_pack_state s
  where (%(thread_ids)s::text[] is null or s.thread_id = any (%(thread_ids)s))
    and not exists (select from source.semantic_thread t where t.thread_id = s.thread_id) )
delete from nao.thread_context_pack_cache c
where (%(thread_ids)s::text[] is null or c.thread_id = any (%(thread_ids)s))
  and not exists (select from source.semantic_thread t where t.thread_id = c.thread_id)
