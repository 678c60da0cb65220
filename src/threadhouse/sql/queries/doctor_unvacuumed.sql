-- Tables with more dead rows than live ones: autovacuum does not come, or a transaction that stays open keeps it from its work.
select s.schemaname || '.' || s.relname as table_name, s.n_dead_tup as dead_rows, s.n_live_tup as live_rows
     , greatest(s.last_vacuum, s.last_autovacuum) as vacuumed_at
     , (select min(a.xact_start) from pg_stat_activity a
        where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start < now() - interval '1 hour') as open_since
from pg_stat_user_tables s
-- Not those in which the leak probe of every night plants rows that it takes back: they are full of dead ones until autovacuum comes.
where s.schemaname in ('nao', 'cong') and s.relname not in ('change_log', 'vector_projection') and s.n_dead_tup > %(dead_rows)s and s.n_dead_tup > s.n_live_tup
order by s.n_dead_tup desc
