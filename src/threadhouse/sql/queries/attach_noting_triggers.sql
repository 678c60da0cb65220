select n.nspname as schema_name, c.relname as table_name, g.tgname as trigger_name
from pg_trigger g
join pg_class c on c.oid = g.tgrelid
join pg_namespace n on n.oid = c.relnamespace
where g.tgfoid = 'nao.note_touched'::regproc and not g.tgisinternal
  -- Those of a partition come and go with the one of the whole table.
  and g.tgparentid = 0
order by 1, 2, 3
