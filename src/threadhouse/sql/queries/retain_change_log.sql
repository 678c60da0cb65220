-- Changes that everybody has followed: a full night began and ended well after them, and every consumer of this server is past them.
select l.ctid
from nao.change_log l
where l.changed_at < %(before)s
  and l.changed_at < (select max(r.started_at) from nao.pipeline_run r where r.kind = 'nightly' and r.status = 'succeeded')
  and not exists
  ( select from nao.change_consumer c
    where c.cluster = (select system_identifier::text from pg_control_system())
      and not pg_visible_in_snapshot(l.transaction_id, c.position) )
