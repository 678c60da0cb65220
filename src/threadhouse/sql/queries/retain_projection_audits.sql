-- Audits, but never the last one of a collection.
select a.ctid
from nao.projection_audit a
where a.audited_at < %(before)s
  and exists (select from nao.projection_audit n where n.collection = a.collection and n.audited_at > a.audited_at)
