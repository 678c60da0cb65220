-- Every edge.
select edge_id::text as edge_id, source_kind, source_id, target_kind, target_id, edge_type
from source.universal_edge
order by edge_id
