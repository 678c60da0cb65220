-- Broken rules of the consumer contract. The same entry again changes nothing.
insert into nao.consumer_contract_log (entry_id, kind, subject, lane, pack_id, details)
select entry_id, kind, %(subject)s, %(lane)s, %(pack_id)s, details
from jsonb_to_recordset(%(entries)s) as given (entry_id uuid, kind text, details jsonb)
on conflict (entry_id) do nothing
