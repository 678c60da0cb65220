-- What audits found is part of the state, when they ran is not: a night that finds nothing new is not judged again.
select '' as part
     , concat_ws(' ', count(*), sum(p.xmin::text::bigint)
       , (select max(change_id) from nao.change_log where table_name in ('production_document', 'tac_logical_unit'))
       , (select count(*) from nao.quarantined_item where resolved_at is null and source like 'projection:%%')
       , (select string_agg(a.collection || a.findings::text, ' ' order by a.collection)
          from (select distinct on (collection) collection, findings from nao.projection_audit
                where collection <> 'thread_centroids' order by collection, audited_at desc) a)) as key
from nao.vector_projection p
having count(*) > 0
