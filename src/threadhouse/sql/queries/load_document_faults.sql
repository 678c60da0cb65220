select s.row_no, 'path' as field, format('%s is the path of document %s already', s.path, d.document_id) as reason
from load_document s
join public.production_document d on d.path = s.path and d.document_id <> s.document_id
order by s.row_no
