-- What is how fresh: the last publish, the last counted day, and changes of documents and units since the last publish began.
select 'vectors published' as name, null::bigint as count, '' as detail, max(finished_at) as last_at
from nao.build_step where step = 'content_vectors'
union all
select 'packs refreshed', null, '', max(finished_at) from nao.build_step where step = 'context_packs'
union all
select 'last counted day', null, coalesce(max(local_day)::text, 'none'), max(computed_at) from nao.retrieval_metric_day
union all
select 'changes not yet in vectors', count(*), coalesce('since ' || to_char(min(changed_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC', ''), max(changed_at)
from nao.change_log
where table_name in ('production_document', 'tac_logical_unit') and lane in ('access', 'content')
  and changed_at >
      coalesce((select finished_at - make_interval(secs => seconds) from nao.build_step where step = 'content_vectors' order by finished_at desc limit 1), '-infinity')
