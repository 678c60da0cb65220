-- What somebody has done to the units of a document since they were made: what would go out of sight with them, or come back into it.
select case when u.logical_unit_id is null then format('unit %%s was deleted', k.key)
            when m.thread_id is not null then format('unit %%s is in thread %%s', u.logical_unit_id, m.thread_id)
            when k.key is null then format('unit %%s was added', u.logical_unit_id)
            when k.value ->> 'current_version_id' is distinct from u.current_version_id::text
              then format('unit %%s has a new version', u.logical_unit_id)
            else format('the row of unit %%s was changed', u.logical_unit_id) end as reason
from (select * from public.tac_logical_unit where document_id = %(document_id)s) u
full join
( select e.key, e.value
  from nao.document_side s
  cross join lateral jsonb_each(s.made) e
  where s.document_id = %(document_id)s ) k on k.key = u.logical_unit_id
left join lateral
( select t.thread_id from public.thread_membership t where t.logical_unit_id = u.logical_unit_id order by t.thread_id limit 1 ) m on true
where m.thread_id is not null
   or k.value is distinct from to_jsonb(u) - '{created_at,updated_at,ordinal}'::text[]
order by coalesce(u.logical_unit_id, k.key)
limit 1
