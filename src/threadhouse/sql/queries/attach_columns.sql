-- Every column that the product reads of a view that the file makes, beside what the file makes of it. A type is compatible when every
-- value of it can be read as the expected one and means the same.
with expected as
( select c.relname::text as view_name, a.attname::text as column_name, a.atttypid as type_id, a.attnum
  from pg_class c join pg_attribute a on a.attrelid = c.oid
  where c.relnamespace = 'source'::regnamespace and c.relkind = 'v' and a.attnum > 0 and not a.attisdropped
    and c.relname in (select view_name from nao.source_view) )
, found as
( select c.relname::text as view_name, a.attname::text as column_name, coalesce(nullif(t.typbasetype, 0), t.oid) as type_id
       , t.typcategory, t.typtype, (select e.typcategory from pg_type e where e.oid = t.typelem) as element_category
  from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_type t on t.oid = a.atttypid
  where c.relnamespace = {fresh}::regnamespace and c.relkind = 'v' and a.attnum > 0 and not a.attisdropped )
select e.view_name, e.column_name, format_type(e.type_id, null) as expected, format_type(f.type_id, null) as found
     , coalesce(
         f.type_id = e.type_id
         or e.type_id = 'text'::regtype and (f.typcategory = 'S' or f.typtype = 'e'
           or f.type_id = any (array['uuid', 'smallint', 'integer', 'bigint']::regtype[]))
         or e.type_id = 'text[]'::regtype and f.typcategory = 'A' and f.element_category = 'S'
         or e.type_id <> 'timestamp with time zone'::regtype and exists
           ( select from pg_cast k where k.castsource = f.type_id and k.casttarget = e.type_id and k.castcontext = 'i' )
       , false) as is_compatible
from expected e
left join found f using (view_name, column_name)
where e.view_name in (select view_name from found)
order by e.view_name, e.attnum
