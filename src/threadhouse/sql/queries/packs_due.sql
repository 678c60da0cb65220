-- Threads whose packs were built from something else than what is there now, or all when they are to be built again. Null threads: every one.
select t.thread_id
from source.semantic_thread t
left join nao.thread_pack_state s on s.thread_id = t.thread_id and s.space_id = %(space_id)s
where (%(thread_ids)s::text[] is null or t.thread_id = any (%(thread_ids)s))
  and ( %(rebuild)s
     or (s.input_revision, s.policy_version, s.code_version)
        is distinct from (t.input_revision, %(policy_version)s::int, %(code_version)s) )
order by t.thread_id
