-- Threads without a unit that counts.
select t.thread_id
from source.semantic_thread t
where not exists
( select from source.thread_membership m
  join source.information_unit i using (logical_unit_id)
  where m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human') )
