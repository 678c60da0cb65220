-- Forwards only: of two positions on one server the later one sees at least as much. A reconcile may end after changes that it did not see were followed.
insert into nao.change_consumer as c (consumer, position, cluster)
values (%(consumer)s, %(position)s, %(cluster)s)
on conflict (consumer) do update
set position = excluded.position, cluster = excluded.cluster, moved_at = clock_timestamp()
where c.cluster <> excluded.cluster
   or ( pg_snapshot_xmax(c.position), pg_snapshot_xmin(c.position), -(select count(*) from pg_snapshot_xip(c.position)) )
   <= ( pg_snapshot_xmax(excluded.position), pg_snapshot_xmin(excluded.position), -(select count(*) from pg_snapshot_xip(excluded.position)) )
