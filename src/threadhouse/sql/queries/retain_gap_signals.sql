-- Gaps that were fixed and that nothing rests on any more. A security event is no gap and stays.
select s.ctid
from nao.search_gap_signal s
where s.status = 'fixed' and s.changed_at < %(before)s and s.last_seen_at < %(before)s and s.severity <> 'security'
  and not exists (select from nao.consumer_contract_log l where l.signal_id = s.signal_id)
  and not exists (select from nao.governance_queue_item q where q.signal_id = s.signal_id and q.status = 'open')
  and not exists (select from nao.decision_backlog_item b where b.signal_id = s.signal_id and b.status in ('open', 'acknowledged'))
  and not exists (select from nao.capability_intake_item i where i.signal_id = s.signal_id and i.status in ('open', 'acknowledged'))
  and not exists (select from nao.health_signal h where h.gap_signal_id = s.signal_id and h.status = 'open')
