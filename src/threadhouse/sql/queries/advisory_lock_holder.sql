select a.application_name || ' (server process ' || a.pid || ', since ' || to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') || ')'
from pg_locks l
join pg_stat_activity a using (pid)
where l.locktype = 'advisory'
  and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(%(name)s, 0)
