-- Checks whose outcome changed. Two runs that find the same at once make the same ids, and one of them writes.
insert into nao.health_signal (signal_id, thread_id, lane, kind, status, observer, evidence, observed_at)
select signal_id, thread_id, lane, 'thread_health', status, 'threadhouse', evidence, clock_timestamp()
from jsonb_to_recordset(%(checks)s) as given (signal_id uuid, thread_id text, lane text, status text, evidence jsonb)
on conflict (signal_id) do nothing
