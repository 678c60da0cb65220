-- Documents that are about to change sides, held until the transaction ends, so that no load gives them units meanwhile.
select d.document_id, d.title, d.body, d.revision, d.content_hash, d.lifecycle_stage, d.data_classification, d.updated_at, d.path
     , (select count(*) from public.tac_logical_unit u where u.document_id = d.document_id and u.current_version_id is not null) as unit_count
     , s.side, s.wanted, s.body_hash
from public.production_document d
left join nao.document_side s using (document_id)
where d.document_id = any (%(document_ids)s)
order by d.document_id
for update of d
