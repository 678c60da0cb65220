-- Items follow their gaps: acknowledged with them, and done, resolved or closed with who and why when the gap is fixed.
with gap as materialized
( select s.signal_id, s.status, s.changed_by, s.change_reason from nao.search_gap_signal s
  where s.status in ('acknowledged', 'fixed') and s.severity <> 'security' and s.kind <> 'wrong_audience_result'
    and (%(signal_id)s::uuid is null or s.signal_id = %(signal_id)s) )
, in_health as
( update nao.health_signal h set status = 'resolved', observed_at = clock_timestamp()
  from gap where h.gap_signal_id = gap.signal_id and h.kind = 'gap' and gap.status = 'fixed' and h.status = 'open' )
, in_backlog as
( update nao.decision_backlog_item b set
    status = case gap.status when 'fixed' then 'done' else 'acknowledged' end, updated_at = clock_timestamp()
  from gap
  where b.signal_id = gap.signal_id
    and b.status = any (case gap.status when 'fixed' then array['open', 'acknowledged'] else array['open'] end) )
, in_capabilities as
( update nao.capability_intake_item c set
    status = case gap.status when 'fixed' then 'done' else 'acknowledged' end, updated_at = clock_timestamp()
  from gap
  where c.signal_id = gap.signal_id
    and c.status = any (case gap.status when 'fixed' then array['open', 'acknowledged'] else array['open'] end) )
update nao.governance_queue_item q set
  status = 'closed', closed_at = clock_timestamp()
, closed_by = coalesce(nullif(btrim(gap.changed_by), ''), 'threadhouse')
, closing_reason = coalesce(nullif(btrim(gap.change_reason), ''), 'the gap is fixed')
from gap where q.signal_id = gap.signal_id and q.status = 'open' and gap.status = 'fixed'
