select '' as part, concat_ws(' ', count(*), sum(p.xmin::text::bigint), count(t.thread_id), cong.policy_in_force()) as key
from nao.thread_context_pack_cache p
left join source.semantic_thread t using (thread_id)
having count(*) > 0
