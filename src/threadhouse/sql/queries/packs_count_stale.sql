select count(*)
from nao.context_pack_in_force c
left join source.semantic_thread t using (thread_id)
where t.input_revision is distinct from c.input_revision
   or c.policy_version <> (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp())
