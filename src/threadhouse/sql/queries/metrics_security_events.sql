select kind, count(*) as entries, max(occurred_at) as last_seen_at
from nao.consumer_contract_log
where occurred_at >= %(first)s and occurred_at < %(last)s
group by kind
order by kind
