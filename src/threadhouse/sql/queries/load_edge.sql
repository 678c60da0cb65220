-- An edge says nothing beyond its key, so one that is there is left alone.
insert into public.universal_edge (edge_id, source_kind, source_id, target_kind, target_id, edge_type)
select edge_id, source_kind, source_id, target_kind, target_id, edge_type
from load_edge
on conflict do nothing
returning true as was_inserted
