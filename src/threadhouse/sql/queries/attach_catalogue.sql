-- What the database is made of, but for views of schema source (the one that a file is being run in): a number for each catalogue that
-- changes with every row of it that is added, changed or removed.
with theirs as materialized
( select c.oid, c.reltype from pg_class c where c.relnamespace = 'source'::regnamespace and c.relkind = 'v' )
, arrays as materialized
( select t.oid from pg_type t where t.oid in (select reltype from theirs) or t.typelem in (select reltype from theirs) )
, rows as
( select 'relations' as what, ctid, xmin from pg_class where oid not in (select oid from theirs)
  union all select 'columns', ctid, xmin from pg_attribute where attrelid not in (select oid from theirs)
  union all select 'types', ctid, xmin from pg_type where oid not in (select oid from arrays)
  union all select 'rules', ctid, xmin from pg_rewrite where ev_class not in (select oid from theirs)
  union all select 'functions', ctid, xmin from pg_proc
  union all select 'triggers', ctid, xmin from pg_trigger
  union all select 'constraints', ctid, xmin from pg_constraint
  union all select 'defaults', ctid, xmin from pg_attrdef
  union all select 'indexes', ctid, xmin from pg_index
  union all select 'policies', ctid, xmin from pg_policy
  union all select 'schemas', ctid, xmin from pg_namespace
  union all select 'sequences', ctid, xmin from pg_sequence
  union all select 'enums', ctid, xmin from pg_enum
  union all select 'casts', ctid, xmin from pg_cast
  union all select 'operators', ctid, xmin from pg_operator
  union all select 'extensions', ctid, xmin from pg_extension
  union all select 'event triggers', ctid, xmin from pg_event_trigger
  union all select 'publications', ctid, xmin from pg_publication
  union all select 'members of roles', ctid, xmin from pg_auth_members
  union all select 'settings', ctid, xmin from pg_db_role_setting
  union all select 'default rights', ctid, xmin from pg_default_acl
  union all select 'comments', ctid, xmin from pg_description where objoid not in (select oid from theirs) )
select what, count(*) || ':' || sum(hashtextextended(ctid::text || ' ' || xmin::text, 0)) as state from rows group by what order by what
