-- One lookup: the stored pack, what it was built from, and what it would be built from now. Only a pack that is built from what is there
-- now comes with its content.
select t.input_revision as current_input_revision
     , cong.policy_in_force() as current_policy_version
     , k.pack_id, k.input_revision, k.policy_version, k.space_id, k.code_version
     , c.pack::text as pack
from visible.semantic_thread t
left join visible.thread_context_pack_key k on k.thread_id = %(thread_id)s and k.lane = %(lane)s and k.space_id = %(space_id)s
left join visible.thread_context_pack c on c.thread_id = %(thread_id)s and c.lane = %(lane)s and c.space_id = %(space_id)s
where t.thread_id = %(thread_id)s
