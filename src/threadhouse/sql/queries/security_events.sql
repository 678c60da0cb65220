-- Security events, those that wait for somebody first. One is open while an item of it is.
select s.signal_id, s.cause_key, s.lane, s.thread_id, s.occurrence_count, s.first_seen_at, s.last_seen_at, s.evidence
     , exists (select from nao.governance_queue_item q where q.signal_id = s.signal_id and q.status = 'open') as is_open
     , closed.closed_at, closed.closed_by, closed.closing_reason
from nao.search_gap_signal s
left join lateral
( select q.closed_at, q.closed_by, q.closing_reason from nao.governance_queue_item q
  where q.signal_id = s.signal_id and q.status = 'closed' order by q.closed_at desc limit 1 ) closed on true
where s.severity = 'security' and (%(signal_id)s::uuid is null or s.signal_id = %(signal_id)s)
order by is_open desc, s.last_seen_at desc, s.signal_id
