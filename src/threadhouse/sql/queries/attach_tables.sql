select t.view_name, t.base as oid, n.nspname || '.' || c.relname as table_name, t.relation_kind::text as relation_kind, t.writes
     , t.relation_kind in ('r', 'p') and has_table_privilege(t.base, 'TRIGGER') as may_have_trigger
     , array(
         select encode(g.tgargs, 'escape') from pg_trigger g
         where g.tgrelid = t.base and g.tgfoid = 'nao.note_touched'::regproc and g.tgname = 'threadhouse_note_update' ) as trigger_arguments
from nao.attached_tables() t
join pg_class c on c.oid = t.base
join pg_namespace n on n.oid = c.relnamespace
order by t.view_name, table_name
