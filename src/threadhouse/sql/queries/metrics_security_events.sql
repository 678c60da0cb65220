-- Broken rules of the contract within a span by kind, and how many security events of the kind still wait for somebody, whenever they were.
with entry as
( select kind, count(*) as entries, max(occurred_at) as last_seen_at
  from nao.consumer_contract_log
  where occurred_at >= %(first)s and occurred_at < %(last)s
  group by kind )
, waiting as
( select s.kind, count(*) as events, max(s.last_seen_at) as last_seen_at
  from nao.search_gap_signal s
  where s.severity = 'security'
    and exists (select from nao.governance_queue_item q where q.signal_id = s.signal_id and q.status = 'open')
  group by s.kind )
select kind, coalesce(entry.entries, 0), coalesce(waiting.events, 0)
     , coalesce(entry.last_seen_at, waiting.last_seen_at)
from entry full join waiting using (kind)
order by kind
