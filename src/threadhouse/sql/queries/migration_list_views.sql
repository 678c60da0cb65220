select c.relname as name, pg_get_viewdef(c.oid) as definition, coalesce(c.reloptions, '{}') as options
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'source' and c.relkind = 'v'
order by c.relname
