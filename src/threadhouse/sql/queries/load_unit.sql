insert into public.tac_logical_unit as u
( logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, ordinal, data_classification
, visibility, readiness, publication_state, risk_class, authority )
select s.logical_unit_id, s.document_id, s.canonical_address, s.unit_kind, s.lifecycle_stage, s.ordinal, s.data_classification
     , s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority
from load_unit s
left join public.tac_logical_unit t using (logical_unit_id)
where t.logical_unit_id is null
   or ( s.may_update
    and ( s.document_id, s.canonical_address, s.unit_kind, s.lifecycle_stage, s.ordinal, s.data_classification
        , s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority )
      is distinct from
        ( t.document_id, t.canonical_address, t.unit_kind, t.lifecycle_stage, t.ordinal, t.data_classification
        , t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority ) )
on conflict (logical_unit_id) do update set
  document_id = excluded.document_id
, canonical_address = excluded.canonical_address
, unit_kind = excluded.unit_kind
, lifecycle_stage = excluded.lifecycle_stage
, ordinal = excluded.ordinal
, data_classification = excluded.data_classification
, visibility = excluded.visibility
, readiness = excluded.readiness
, publication_state = excluded.publication_state
, risk_class = excluded.risk_class
, authority = excluded.authority
returning (xmax = 0) as was_inserted
