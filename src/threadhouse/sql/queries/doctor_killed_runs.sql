-- Runs that never said how they ended although nobody holds the lock that a nightly holds as long as it lives.
select r.kind, count(*) as runs, min(r.started_at) as first_at
from nao.pipeline_run r
where r.status = 'running' and r.kind = 'nightly'
  and not exists
  ( select from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.database = (select oid from pg_database where datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(%(lock)s, 0) )
group by r.kind
