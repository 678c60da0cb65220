-- Since when owners that are about to lose readers have waited: the first change after their last publication that can take a
-- right away. An owner that none explains (a repaired point) did not wait for anybody's decision.
select p.owner_id, min(c.changed_at) as changed_at
from nao.vector_projection p
left join source.information_unit u on p.collection = 'information_units' and u.logical_unit_id = p.owner_id
join nao.change_log c
  on c.row_key = any (array[p.owner_id, u.document_id, '*'])
 and (c.lane = 'access' or c.op in ('delete', 'truncate'))
 and c.changed_at > p.published_at
 and ( c.table_name = 'production_document' and c.row_key in (u.document_id, '*')
    or c.table_name = 'production_document' and p.collection = 'production_documents' and c.row_key = p.owner_id
    or c.table_name = 'tac_logical_unit' and p.collection = 'information_units' and c.row_key in (p.owner_id, '*') )
where p.physical = %(physical)s and p.owner_id = any (%(owner_ids)s)
group by p.owner_id
