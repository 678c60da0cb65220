-- On which side readers find each document, and who asked for it. Null selects all.
with units as
( select u.document_id, count(*) as unit_count, count(*) filter (where u.current_version_id is not null) as live_count
  from public.tac_logical_unit u
  where %(document_ids)s::text[] is null or u.document_id = any (%(document_ids)s)
  group by u.document_id )
, published as
( select u.document_id
  from nao.vector_projection_in_force p
  join source.information_unit u on u.logical_unit_id = p.owner_id
  where p.collection = 'information_units' and (%(document_ids)s::text[] is null or u.document_id = any (%(document_ids)s))
  group by u.document_id )
select d.document_id
     , d.title
     , case when p.document_id is not null then 'units'
            when l.owner_id is not null and not d.has_units then 'legacy'
            else 'none' end as side
     , case when s.wanted is not null then s.wanted
            when d.has_units then 'units'
            when d.body ~ '\S' then 'legacy'
            else 'none' end as wanted
     , coalesce(u.unit_count, 0)::int as unit_count
     , s.changed_by
     , s.changed_at
from source.production_document d
left join units u using (document_id)
left join published p using (document_id)
left join nao.vector_projection_in_force l on l.collection = 'production_documents' and l.owner_id = d.document_id
left join nao.document_side s using (document_id)
where %(document_ids)s::text[] is null or d.document_id = any (%(document_ids)s)
order by d.document_id
