-- What was found out about a signal, without a change of its status.
update nao.search_gap_signal set evidence = evidence || %(evidence)s
where signal_id = %(signal_id)s and severity <> 'security' and kind <> 'wrong_audience_result'
