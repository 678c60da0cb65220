-- The last audit of each collection.
select distinct on (collection) collection, points, owners, findings, audited_at
from nao.projection_audit
order by collection, audited_at desc
