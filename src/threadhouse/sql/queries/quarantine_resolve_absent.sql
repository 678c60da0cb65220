-- A pass over a source, or over some of its items, that does not meet an item again has resolved it. Null means all items.
update nao.quarantined_item
set resolved_at = clock_timestamp()
where source = %(source)s
  and resolved_at is null
  and (%(looked_at)s::text[] is null or item_key = any (%(looked_at)s))
  and not (item_key = any (%(still_wrong)s))
