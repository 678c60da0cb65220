-- Who holds an advisory lock of Threadhouse. The keys are those of advisory_lock, load_lock and migration_lock.
select case l.lock_key
         when hashtextextended('threadhouse projection', 0) then 'vector projection'
         when hashtextextended('threadhouse nightly', 0) then 'nightly'
         when hashtext('threadhouse.load')::bigint then 'loading'
         when 7305808868 then 'schema migration'
         else 'advisory lock ' || l.lock_key
       end as lock_name
     , coalesce(nullif(a.application_name, ''), 'a connection without a name') as application_name
     , l.pid as server_pid
     , a.backend_start as connected_at
from (
  select distinct pid, (classid::bigint << 32) | objid::bigint as lock_key
  from pg_locks
  where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())
) l
left join pg_stat_activity a using (pid)
order by lock_name, server_pid
