-- Only documents that are still wanted where they were wanted when the publish was planned.
update nao.document_side s
set side = s.wanted, switched_at = clock_timestamp()
from unnest(%(document_ids)s::text[], %(wanted)s::text[]) as n (document_id, wanted)
where s.document_id = n.document_id and s.wanted = n.wanted and s.side <> s.wanted
returning s.document_id
