-- Open gaps that the questions of a proposal made and that nobody looks after yet.
select signal_id from nao.search_gap_signal
where cause_key = any (%(question_keys)s) and kind in ('missing_thread', 'search_gap') and status in ('open', 'reopened')
  and severity <> 'security'
order by signal_id
