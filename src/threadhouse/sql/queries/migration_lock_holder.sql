select coalesce(a.application_name, 'unknown') as application_name, l.pid
from pg_locks l
left join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.database = (select oid from pg_database where datname = current_database())
  and ((l.classid::bigint << 32) | l.objid::bigint) = 7305808868
limit 1
