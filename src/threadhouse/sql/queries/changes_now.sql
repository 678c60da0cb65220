-- This moment in the order of commits: what is committed by now, and the server that counts.
select pg_current_snapshot()::text, system_identifier::text, clock_timestamp() from pg_control_system()
