-- Every collection that should be there, or has owners, in its newest generation. What the source changed since the last publish began is not held against it.
with last_publish as
( select coalesce(max(finished_at - make_interval(secs => seconds)), '-infinity') as began
  from (select finished_at, seconds from nao.build_step where step = 'content_vectors' order by finished_at desc limit 1) s )
, live as
( select p.* from nao.vector_projection_in_force p
  join (select distinct on (collection) collection, physical from nao.vector_projection_in_force order by collection, published_at desc) g
    using (collection, physical) )
, wanted as
( select 'information_units' as collection, logical_unit_id as owner_id, document_id from source.information_unit
  union all
  select 'production_documents', document_id, document_id from source.production_document where not has_units and body ~ '\S' )
, astray as
( select coalesce(p.collection, w.collection) as collection, p.owner_id is null as is_missing
  from (select * from live where collection <> 'thread_centroids') p
  full join wanted w on w.collection = p.collection and w.owner_id = p.owner_id
  where (p.owner_id is null or w.owner_id is null)
    and not exists
    ( select from nao.change_log c, last_publish l
      where c.changed_at >= l.began and c.row_key in (coalesce(p.owner_id, w.owner_id), w.document_id, '*') )
    and not exists
    ( select from nao.quarantined_item q
      where q.resolved_at is null and q.source = 'projection:' || w.collection and q.item_key = w.owner_id ) )
, audit as
( select distinct on (collection) collection, (select coalesce(sum(f.value::bigint), 0) from jsonb_each_text(findings) f)::bigint as findings
  from nao.projection_audit order by collection, audited_at desc )
select c.collection
     , count(distinct p.space_id) as space_count
     , count(*) filter (where p.content_digest = '' or p.payload_digest = '') as owners_without_digest
     -- A unit of blank text is there without a chunk.
     , count(*) filter (where p.chunk_count = 0 and p.collection <> 'information_units') as owners_without_chunks
     , count(*) filter (where p.published_at > clock_timestamp()) as owners_of_the_future
     , (select count(*) from astray a where a.collection = c.collection and not a.is_missing) as owners_gone
     , (select count(*) from astray a where a.collection = c.collection and a.is_missing) as owners_missing
     -- Centroids are audited at the same time as this is asked, by a check of their own.
     , case when c.collection = 'thread_centroids' then 0 else (select findings from audit a where a.collection = c.collection) end as audit_findings
from (select unnest(%(collections)s::text[]) as collection union select collection from nao.vector_projection_in_force) c
left join live p using (collection)
group by c.collection
order by c.collection
