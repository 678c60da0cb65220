-- Units that are named themselves, by their document or by a thread that they belong to; of these, those written in a time.
select u.logical_unit_id
from source.information_unit u
where
  ( %(everything)s
    or u.logical_unit_id = any (%(units)s)
    or u.document_id = any (%(documents)s)
    or exists (select from source.thread_membership m where m.logical_unit_id = u.logical_unit_id and m.thread_id = any (%(threads)s)) )
  and (%(begins)s::timestamptz is null or u.created_at >= %(begins)s)
  and (%(ends)s::timestamptz is null or u.created_at < %(ends)s)
order by u.logical_unit_id
