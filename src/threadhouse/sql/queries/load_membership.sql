-- A row that names a whole document only fills gaps: what is said of a single unit, here or before, is more exact.
with named as
( select s.row_no, s.thread_id, u.logical_unit_id, s.role, s.confidence, s.status, s.evidence, false as is_wholesale
  from load_membership s join public.tac_logical_unit u on u.logical_unit_id = s.logical_unit_id
  union all
  select s.row_no, s.thread_id, u.logical_unit_id, s.role, s.confidence, s.status, s.evidence, false
  from load_membership s join public.tac_logical_unit u on u.canonical_address = s.canonical_address
  union all
  select s.row_no, s.thread_id, u.logical_unit_id, s.role, s.confidence, s.status, s.evidence, true
  from load_membership s join public.tac_logical_unit u on u.document_id = s.document_id )
, members as
( select distinct on (thread_id, logical_unit_id) * from named order by thread_id, logical_unit_id, is_wholesale, row_no )
, changed as
( select m.*
  from members m left join public.thread_membership o using (thread_id, logical_unit_id)
  where o.thread_id is null
     or ( not m.is_wholesale
      and (m.role, m.confidence, m.status, m.evidence) is distinct from (o.role, o.confidence, o.status, o.evidence) ) )
, written as
( insert into public.thread_membership as t (thread_id, logical_unit_id, role, confidence, status, evidence)
  select thread_id, logical_unit_id, role, confidence, status, evidence from changed
  on conflict (thread_id, logical_unit_id) do update set
    role = excluded.role
  , confidence = excluded.confidence
  , status = excluded.status
  , evidence = excluded.evidence
  returning (xmax = 0) as was_inserted )
select (select count(*) from written where was_inserted) as inserted
     , (select count(*) from written where not was_inserted) as updated
     , (select count(*) from members) as members
