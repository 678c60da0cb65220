insert into nao.thread_pack_state as s (thread_id, input_revision, policy_version, space_id, code_version)
select n.thread_id, n.input_revision, %(policy_version)s, %(space_id)s, %(code_version)s
from unnest(%(thread_ids)s::text[], %(input_revisions)s::bigint[]) as n (thread_id, input_revision)
on conflict (thread_id, space_id) do update set
  input_revision = excluded.input_revision
, policy_version = excluded.policy_version
, code_version = excluded.code_version
, built_at = clock_timestamp()
