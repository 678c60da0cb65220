-- Citations that were out of date or of nothing, and the like. What tells of a security event is an audit trail and stays for good.
select l.ctid
from nao.consumer_contract_log l
where l.occurred_at < %(before)s and l.kind <> 'wrong_audience_result' and l.signal_id is null
