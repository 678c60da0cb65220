-- States that are no more.
update nao.search_gap_signal s set
  status = 'fixed', changed_by = 'threadhouse', change_reason = 'no longer so'
where s.kind = any (%(kinds)s) and s.status <> 'fixed' and s.severity <> 'security'
  and not exists
  ( select from jsonb_to_recordset(%(states)s) as given (kind text, cause_key text)
    where given.kind = s.kind and given.cause_key = s.cause_key )
