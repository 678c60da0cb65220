-- What packs held that left, for checking citations. One that is still delivered is in the cache, or was until lately.
select d.ctid
from nao.delivered_pack d
where d.first_delivered_at < %(before)s
  and not exists
  ( select from nao.thread_context_pack_cache c
    where c.thread_id = d.thread_id and c.lane = d.lane and (c.pack_id = d.pack_id or c.built_at >= %(before)s) )
