-- Stored context packs, and how many of them were built from something that has changed since.
select count(*) as packs
     , count(*) filter (where (c.input_revision, c.policy_version, c.space_id, c.code_version)
         is distinct from (t.input_revision, p.policy_version, coalesce(%(space_id)s::text, c.space_id), %(code_version)s::text)) as stale_packs
from nao.context_pack_in_force c
left join source.semantic_thread t using (thread_id)
cross join (select max(policy_version) as policy_version from cong.audience_filter_policy where activated_at <= statement_timestamp()) p
