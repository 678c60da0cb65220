-- Edges with an end among the given ones; two lookups by index instead of one scan with an or.
with ends as (select * from unnest(%(kinds)s::text[], %(ids)s::text[]) as e (kind, id))
select e.edge_id::text as edge_id, e.source_kind, e.source_id, e.target_kind, e.target_id, e.edge_type
from source.universal_edge e join ends on ends.kind = e.source_kind and ends.id = e.source_id
union
select e.edge_id::text, e.source_kind, e.source_id, e.target_kind, e.target_id, e.edge_type
from source.universal_edge e join ends on ends.kind = e.target_kind and ends.id = e.target_id
order by edge_id
