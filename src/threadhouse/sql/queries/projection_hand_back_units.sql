-- Units leave their collection in the transaction in which their document is live in the legacy one, never before.
delete from nao.vector_projection p
using nao.held_unit h
where p.physical = %(unit_physical)s
  and p.owner_id = any (%(owner_ids)s)
  and h.logical_unit_id = p.owner_id
  and exists (select from nao.vector_projection l where l.physical = %(legacy_physical)s and l.owner_id = h.document_id)
returning p.owner_id
