-- Threads that are named themselves or by units in them, that a lane has a pack of, or whose packs were built in a time.
select t.thread_id
from source.semantic_thread t
where
  ( %(everything)s
    or t.thread_id = any (%(threads)s)
    or exists
    ( select from source.thread_membership m
      join source.information_unit u using (logical_unit_id)
      where m.thread_id = t.thread_id and (u.logical_unit_id = any (%(units)s) or u.document_id = any (%(documents)s)) ) )
  and (%(lanes)s::text[] is null or exists
    (select from nao.thread_context_pack_cache c where c.thread_id = t.thread_id and c.lane = any (%(lanes)s)))
  and (%(begins)s::timestamptz is null or exists
    (select from nao.thread_pack_state s where s.thread_id = t.thread_id and s.built_at >= %(begins)s and s.built_at < %(ends)s))
order by t.thread_id
