-- What stored packs of a space were built from. Null selects those of every thread.
select thread_id, lane, input_revision, policy_version, space_id, code_version, pack_id
from nao.thread_context_pack_cache
where space_id = %(space_id)s and (%(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s))
