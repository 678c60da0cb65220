-- The occurrences of a security event, newest first.
select entry_id, occurred_at, subject, lane, pack_id, details
from nao.consumer_contract_log where signal_id = %(signal_id)s
order by occurred_at desc, entry_id
limit %(limit)s
