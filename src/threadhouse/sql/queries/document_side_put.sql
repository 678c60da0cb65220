-- What is wanted of a document, and what its units are at this moment. A document that was never moved is where it always was.
insert into nao.document_side as s (document_id, side, wanted, made, body_hash, changed_by)
select d.document_id, 'legacy', %(wanted)s
     , (select coalesce(jsonb_object_agg(u.logical_unit_id, to_jsonb(u) - '{created_at,updated_at,ordinal}'::text[]), '{}') from public.tac_logical_unit u
        where u.document_id = d.document_id)
     , d.content_hash, %(who)s
from public.production_document d
where d.document_id = %(document_id)s
on conflict (document_id) do update set
  wanted = excluded.wanted
-- New units do not show before they are published.
, side = case when %(is_made)s then 'legacy' else s.side end
, made = case when %(is_made)s then excluded.made else s.made end
, body_hash = excluded.body_hash
, changed_by = excluded.changed_by
, changed_at = clock_timestamp()
