-- A document leaves the legacy collection in the transaction in which its first unit is live in the other one, never before.
delete from nao.vector_projection l
where l.physical = %(legacy_physical)s
  and l.owner_id = any (%(owner_ids)s)
  and exists
  ( select
    from source.information_unit u
    join nao.vector_projection p on p.physical = %(unit_physical)s and p.owner_id = u.logical_unit_id
    where u.document_id = l.owner_id )
returning l.owner_id
