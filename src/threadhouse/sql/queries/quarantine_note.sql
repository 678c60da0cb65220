insert into nao.quarantined_item as q (source, item_key, field, reason, file, line, raw)
select %(source)s, n.item_key, n.field, n.reason, n.file, n.line, n.raw
from unnest(%(item_keys)s::text[], %(fields)s::text[], %(reasons)s::text[], %(files)s::text[], %(lines)s::int[], %(raws)s::text[])
  as n (item_key, field, reason, file, line, raw)
on conflict (source, item_key, field, reason) do update set
  occurrence_count = q.occurrence_count + 1
, last_seen_at = clock_timestamp()
, file = excluded.file
, line = excluded.line
, raw = excluded.raw
, resolved_at = null
