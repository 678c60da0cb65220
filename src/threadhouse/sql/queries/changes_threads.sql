-- Threads with a member among units, or among the units of documents.
select distinct m.thread_id
from source.thread_membership m
left join source.information_unit u using (logical_unit_id)
where m.logical_unit_id = any (%(units)s) or u.document_id = any (%(documents)s)
