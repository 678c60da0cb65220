-- One lookup: the stored pack, what it was built from, and what it would be built from now.
select t.input_revision as current_input_revision
     , (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp()) as current_policy_version
     , c.input_revision, c.policy_version, c.space_id, c.code_version
     , c.pack::text as pack
from source.semantic_thread t
left join nao.thread_context_pack_cache c on c.thread_id = t.thread_id and c.lane = %(lane)s
where t.thread_id = %(thread_id)s
