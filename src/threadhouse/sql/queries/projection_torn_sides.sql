-- Of documents that have just changed sides, those that the new side does not hold whole, in the version that counts,
-- or that the old side still holds.
select d.document_id
from source.production_document d
where d.document_id = any (%(document_ids)s::text[])
  and case when d.has_units
    then exists
    ( select from source.information_unit u
      where u.document_id = d.document_id
        and not exists
        ( select from nao.vector_projection p
          where p.physical = %(unit_physical)s and p.owner_id = u.logical_unit_id and p.version_key = u.unit_version_id::text ) )
    else not exists
    ( select from nao.vector_projection p
      where p.physical = %(legacy_physical)s and p.owner_id = d.document_id and p.version_key = d.document_id || '@' || d.revision )
    or exists
    ( select from nao.vector_projection p
      join nao.held_unit h on h.logical_unit_id = p.owner_id
      where p.physical = %(unit_physical)s and h.document_id = d.document_id ) end
