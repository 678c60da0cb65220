select s.row_no, 'thread_id' as field, format('thread %s is not loaded', s.thread_id) as reason
from load_membership s
where not exists (select from public.semantic_thread t where t.thread_id = s.thread_id)
union all
select s.row_no, 'logical_unit_id', format('unit %s is not loaded', s.logical_unit_id)
from load_membership s
where s.logical_unit_id is not null
  and not exists (select from public.tac_logical_unit u where u.logical_unit_id = s.logical_unit_id)
union all
select s.row_no, 'canonical_address', format('no unit has the address %s', s.canonical_address)
from load_membership s
where s.canonical_address is not null
  and not exists (select from public.tac_logical_unit u where u.canonical_address = s.canonical_address)
union all
select s.row_no, 'document_id', format('document %s is not loaded', s.document_id)
from load_membership s
where s.document_id is not null
  and not exists (select from public.production_document d where d.document_id = s.document_id)
