-- Memberships whose latest wrong_link signal is open. Null selects those of every thread.
select thread_id, logical_unit_id
from
( select distinct on (thread_id, logical_unit_id) thread_id, logical_unit_id, status
  from nao.health_signal
  where kind = 'wrong_link' and logical_unit_id is not null
    and (%(thread_ids)s::text[] is null or thread_id = any (%(thread_ids)s))
  order by thread_id, logical_unit_id, observed_at desc, signal_id desc ) latest
where status = 'open'
order by thread_id, logical_unit_id
