-- Gap signals as operators see them, the gravest first. Security events are none.
select s.signal_id, s.kind, s.cause_key, s.lane, s.thread_id, s.severity, s.status, s.occurrence_count, s.opening, s.evidence
     , s.first_seen_at, s.last_seen_at, s.changed_at, s.changed_by, s.change_reason
from nao.search_gap_signal s
where s.severity <> 'security' and s.kind <> 'wrong_audience_result'
  and (%(signal_id)s::uuid is null or s.signal_id = %(signal_id)s)
  and (%(lane)s::text is null or s.lane = %(lane)s)
  and (%(statuses)s::text[] is null or s.status = any (%(statuses)s))
  and (%(kinds)s::text[] is null or s.kind = any (%(kinds)s))
order by s.status = 'fixed', array_position(array['high', 'normal', 'low'], s.severity), s.occurrence_count desc, s.last_seen_at desc, s.signal_id
limit %(limit)s
