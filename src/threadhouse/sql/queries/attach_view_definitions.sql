select c.relname as view_name, rtrim(pg_get_viewdef(c.oid), ';') as definition
from pg_class c
where c.relnamespace = 'source'::regnamespace and c.relkind = 'v' and c.relname in (select view_name from nao.source_view)
