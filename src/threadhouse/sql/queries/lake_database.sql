-- Which database this is, what time it is there, and the oldest transaction that may still be under way: every older one is decided.
select (select system_identifier from pg_control_system())::text || '/' || (select oid from pg_database where datname = current_database())::text
     , pg_snapshot_xmin(pg_current_snapshot())::text
     , now()
