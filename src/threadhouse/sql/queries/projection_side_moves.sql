-- Documents that are not where they are wanted. Null selects all.
select s.document_id, s.wanted
from nao.document_side s
where s.side <> s.wanted
  and current_setting('threadhouse.sides', true) = 'wanted'
  and (%(document_ids)s::text[] is null or s.document_id = any (%(document_ids)s))
order by s.document_id
