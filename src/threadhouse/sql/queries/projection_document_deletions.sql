-- How many owners a collection has published, how many of them the source no longer names, and 1 when it names anything at all.
select count(*) as published
     , count(*) filter (where d.document_id is null) as gone
     , (exists (select from source.information_unit) or exists (select from source.production_document))::int as named
from nao.vector_projection p
left join source.production_document d on d.document_id = p.owner_id
where p.physical = %(physical)s
