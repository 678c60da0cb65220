-- What is how fresh: the last publish, the last counted day, and changes of documents and units that nobody has followed yet. Where
-- the log was never followed, those since the last publish began.
with followed as
( select (select c.position from nao.change_consumer c join pg_control_system() s on c.cluster = s.system_identifier::text
          where c.consumer = 'projection') as position
       , coalesce( (select finished_at - make_interval(secs => seconds) from nao.build_step where step = 'content_vectors'
                    order by finished_at desc limit 1), '-infinity' ) as publish_began )
select 'vectors published' as name, null::bigint as count, '' as detail, max(finished_at) as last_at
from nao.build_step where step = 'content_vectors'
union all
select 'packs refreshed', null, '', max(finished_at) from nao.build_step where step = 'context_packs'
union all
select 'changes followed', null, '', max(moved_at) from nao.change_consumer where consumer = 'projection'
union all
select 'last counted day', null, coalesce(max(local_day)::text, 'none'), max(computed_at) from nao.retrieval_metric_day
union all
select 'changes not yet in vectors', count(*), coalesce('since ' || to_char(min(changed_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC', ''), max(changed_at)
from nao.change_log l, followed f
where l.table_name in ('production_document', 'tac_logical_unit') and l.lane in ('access', 'content')
  and case when f.position is null then l.changed_at > f.publish_began
           else l.transaction_id >= pg_snapshot_xmin(f.position) and not pg_visible_in_snapshot(l.transaction_id, f.position) end
