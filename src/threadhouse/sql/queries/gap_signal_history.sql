-- Every status that a signal was in, oldest first.
select status, changed_at, changed_by, reason from nao.gap_signal_change where signal_id = %(signal_id)s order by change_id
