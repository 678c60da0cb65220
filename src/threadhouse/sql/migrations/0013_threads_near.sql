-- A link to a thread is shown to whoever sees one of the thread's units. So what happens to a unit of the thread, and which units it has,
-- changes the packs of those that are linked with it, one step further than units and documents that a link names themselves.

create or replace function nao.threads_near(unit_ids text[], document_ids text[], thread_ids text[]) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $fn$
  with changed as materialized
  ( select 'unit' as kind, unnest(unit_ids) as id
    union select 'document', unnest(document_ids)
    union select 'thread', unnest(thread_ids)
    union select 'unit', logical_unit_id from public.tac_logical_unit where document_id = any (document_ids)
    union select 'document', document_id from public.tac_logical_unit where logical_unit_id = any (unit_ids) )
  , linked as materialized
  ( select kind, id from changed
    union select 'thread', m.thread_id from changed c join public.thread_membership m on c.kind = 'unit' and m.logical_unit_id = c.id )
  , near as
  ( select kind, id from linked
    union select e.target_kind, e.target_id from public.universal_edge e join linked l on e.source_kind = l.kind and e.source_id = l.id
    union select e.source_kind, e.source_id from public.universal_edge e join linked l on e.target_kind = l.kind and e.target_id = l.id )
  , near_units as
  ( select id as logical_unit_id from near where kind = 'unit'
    union select u.logical_unit_id from near join public.tac_logical_unit u on u.document_id = near.id where near.kind = 'document' )
  select array_agg(thread_id) from
  ( select id as thread_id from near where kind = 'thread'
    union select m.thread_id from public.thread_membership m join near_units using (logical_unit_id) ) t
$fn$;

-- Argument: how a changed row names the threads it can affect.
create or replace function nao.bump_affected_threads() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  rows_sql text;
  ids text[];
begin
  if tg_op = 'TRUNCATE' then
    update public.semantic_thread set input_revision = input_revision + 1;
    return null;
  end if;
  rows_sql := case tg_op
    when 'INSERT' then 'select * from new_rows'
    when 'DELETE' then 'select * from old_rows'
    else '(select * from new_rows except select * from old_rows) union all (select * from old_rows except select * from new_rows)'
  end;
  if tg_argv[0] = 'thread' and tg_op = 'UPDATE' then
    -- What this very trigger does to other threads is no change that needs passing on.
    rows_sql := 'select n.* from new_rows n left join old_rows o using (thread_id)'
      || ' where to_jsonb(n) - ''{input_revision,updated_at}''::text[] is distinct from to_jsonb(o) - ''{input_revision,updated_at}''::text[]';
  end if;
  execute case tg_argv[0]
    when 'thread' then format(
      'select nao.threads_near(''{}'', ''{}'', array_agg(distinct thread_id)) from (%s) r', rows_sql)
    when 'membership' then format(
      case tg_table_name
        when 'thread_membership' then 'select nao.threads_near(''{}'', ''{}'', array_agg(distinct thread_id)) from (%s) r'
        else 'select array_agg(distinct thread_id) from (%s) r'
      end, rows_sql)
    when 'unit' then format(
      'select nao.threads_near(array_agg(distinct logical_unit_id), ''{}'', ''{}'') from (%s) r', rows_sql)
    when 'document' then format(
      'select nao.threads_near(''{}'', array_agg(distinct document_id), ''{}'') from (%s) r', rows_sql)
    when 'edge' then format(
      $q$
      with ends as
      ( select source_kind as kind, source_id as id from (%1$s) r
        union select target_kind, target_id from (%1$s) r )
      , units as
      ( select id as logical_unit_id from ends where kind = 'unit'
        union select u.logical_unit_id from ends join public.tac_logical_unit u on kind = 'document' and u.document_id = id )
      select array_agg(thread_id) from
      ( select id as thread_id from ends where kind = 'thread'
        union select m.thread_id from public.thread_membership m join units using (logical_unit_id) ) t
      $q$, rows_sql)
  end into ids;
  if ids is not null and cardinality(ids) > 0 then
    perform nao.bump_threads(ids);
  end if;
  return null;
end
$fn$;
