-- Tables whose rows this transaction wrote.
select relid::regclass::text as table_name from pg_stat_xact_all_tables
where schemaname not in ('pg_catalog', 'pg_toast') and n_tup_ins + n_tup_upd + n_tup_del > 0
order by 1
