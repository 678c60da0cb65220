-- Closing an event closes what is open of it, with who and why. Closed again it is left as it was.
with closed as
( update nao.governance_queue_item set
    status = 'closed', closed_at = clock_timestamp(), closed_by = %(who)s, closing_reason = %(why)s
  where signal_id = %(signal_id)s and status = 'open'
  returning 1 )
, fixed as
( update nao.search_gap_signal set status = 'fixed'
  where signal_id = %(signal_id)s and severity = 'security' and status <> 'fixed' )
select count(*) from closed
