-- A pack is kept only while its thread still is what the pack was built from, so a slow builder cannot overwrite a newer pack.
with thread as
( select input_revision from source.semantic_thread where thread_id = %(thread_id)s )
, written as
( insert into nao.thread_context_pack_cache as c
    (thread_id, lane, pack_id, input_revision, policy_version, space_id, code_version, input_digest, pack, build_ms)
  select %(thread_id)s, %(lane)s, %(pack_id)s, %(input_revision)s, %(policy_version)s, %(space_id)s, %(code_version)s
       , %(input_digest)s, %(pack)s::jsonb, %(build_ms)s
  from thread where thread.input_revision = %(input_revision)s
  on conflict (thread_id, lane, space_id) do update set
    pack_id = excluded.pack_id
  , input_revision = excluded.input_revision
  , policy_version = excluded.policy_version
  , code_version = excluded.code_version
  , input_digest = excluded.input_digest
  , pack = excluded.pack
  , build_ms = excluded.build_ms
  , built_at = now()
  where (c.input_revision, c.policy_version, c.code_version, c.input_digest)
    is distinct from
    (excluded.input_revision, excluded.policy_version, excluded.code_version, excluded.input_digest)
  returning 1 )
select exists (select from written) as is_written
     , exists (select from thread where input_revision = %(input_revision)s) as is_current
