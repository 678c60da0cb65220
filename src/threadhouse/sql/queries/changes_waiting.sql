-- What a consumer has still to follow. A position that another server counted is none.
select p.position::text as position, count(l.change_id) as changes, min(l.changed_at) as oldest_at, max(l.change_id) as newest_id
     , clock_timestamp() as asked_at
from (select 1) always
left join
( select c.position from nao.change_consumer c join pg_control_system() s on c.cluster = s.system_identifier::text
  where c.consumer = %(consumer)s ) p on true
left join nao.change_log l
  on l.transaction_id >= pg_snapshot_xmin(p.position) and not pg_visible_in_snapshot(l.transaction_id, p.position)
group by p.position::text
