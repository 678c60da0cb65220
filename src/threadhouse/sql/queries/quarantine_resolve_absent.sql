-- A full pass over a source that does not meet an item again has resolved it.
update nao.quarantined_item
set resolved_at = clock_timestamp()
where source = %(source)s
  and resolved_at is null
  and not (item_key = any (%(still_wrong)s))
