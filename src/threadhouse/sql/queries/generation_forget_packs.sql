-- Packs of a space that no generation is of any more.
with forgotten as (delete from nao.thread_pack_state where space_id = %(space_id)s)
delete from nao.thread_context_pack_cache where space_id = %(space_id)s
