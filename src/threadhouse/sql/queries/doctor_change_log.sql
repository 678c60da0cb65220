-- How much the change log holds and since when. Counted to a limit: what grows without end must not make the doctor slow.
select (select count(*) from (select from nao.change_log limit %(limit)s) l) as rows_seen
     , (select min(changed_at) from nao.change_log where change_id = (select min(change_id) from nao.change_log)) as oldest_at
     , pg_total_relation_size('nao.change_log') as size_bytes
     , now() as asked_at
