select s.row_no, 'document_id' as field, format('document %s is not loaded', s.document_id) as reason
from load_unit s
where not exists (select from public.production_document d where d.document_id = s.document_id)
union all
select s.row_no, 'canonical_address', format('%s is the address of unit %s already', s.canonical_address, u.logical_unit_id)
from load_unit s
join public.tac_logical_unit u on u.canonical_address = s.canonical_address and u.logical_unit_id <> s.logical_unit_id
