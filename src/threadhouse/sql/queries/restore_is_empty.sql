-- Whether nobody keeps anything here: no table, view or sequence outside of PostgreSQL's own schemas.
select not exists
  ( select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f') )
