-- Packs of the given threads whose lane is not among those that still see something of them.
delete from nao.thread_context_pack_cache c
where c.thread_id = any (%(thread_ids)s)
  and not exists
  ( select from unnest(%(seen_thread_ids)s::text[], %(seen_lanes)s::text[]) as seen (thread_id, lane)
    where seen.thread_id = c.thread_id and seen.lane = c.lane )
