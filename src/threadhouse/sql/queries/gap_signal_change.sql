-- A signal into a status, with who and why. What is in it already, and what is not the caller's to change, stays as it is.
update nao.search_gap_signal set
  status = %(status)s, changed_by = %(who)s, change_reason = %(why)s, evidence = evidence || %(evidence)s
where signal_id = %(signal_id)s and severity <> 'security' and kind <> 'wrong_audience_result' and status = any (%(from_statuses)s)
returning status
