-- Documents with text that neither units nor the legacy collection hold. A unit of blank text has no point that could say where it was.
select d.document_id
from source.production_document d
where not d.has_units
  and d.body ~ '\S'
  and not exists
  ( select from nao.vector_projection p where p.physical = %(physical)s and p.owner_id = d.document_id )
