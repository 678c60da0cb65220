-- Whether the views that the pipeline reads are those of this project: somebody else's know nothing of sides.
select count(distinct v.relname) = 2
from pg_rewrite r
join pg_class v on v.oid = r.ev_class and v.relnamespace = 'source'::regnamespace
  and v.relname in ('production_document', 'information_unit')
join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
  and d.refobjid = 'nao.document_in_legacy'::regclass
