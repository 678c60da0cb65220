-- Roles that a dump of this database names in grants and policies; it does not hold them itself.
select distinct r.rolname
from pg_shdepend d join pg_roles r on r.oid = d.refobjid
where d.refclassid = 'pg_authid'::regclass and d.deptype in ('a', 'r')
  and d.dbid = (select oid from pg_database where datname = current_database())
  and r.rolname <> current_user and r.rolname not like 'pg\_%%'
order by 1
