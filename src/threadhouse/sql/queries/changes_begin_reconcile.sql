insert into nao.change_reconcile (run_id, position, cluster)
select %(run_id)s, pg_current_snapshot(), system_identifier::text from pg_control_system()
on conflict (run_id) do update set position = excluded.position, cluster = excluded.cluster, began_at = clock_timestamp()
