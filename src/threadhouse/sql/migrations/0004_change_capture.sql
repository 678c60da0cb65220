-- Content hashes, immutability of versions, the change log and thread input revisions.
-- Statement triggers with transition tables: a bulk load of thousands of rows costs one pass, not one call a row.

create function nao.stamp_document() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  new.content_hash := encode(sha256(convert_to(new.title || e'\n' || new.body, 'UTF8')), 'hex');
  if tg_op = 'UPDATE' then
    if new.content_hash is distinct from old.content_hash and new.revision = old.revision then
      new.revision := old.revision + 1;
    end if;
    if new is distinct from old then
      new.updated_at := clock_timestamp();
    end if;
  end if;
  return new;
end
$fn$;

create trigger production_document_stamp before insert or update on public.production_document
  for each row execute function nao.stamp_document();

create function nao.stamp_unit_version() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  new.content_hash := encode(sha256(convert_to(new.title || e'\n' || new.body, 'UTF8')), 'hex');
  if tg_op = 'UPDATE' and (new.content_hash, new.revision) is distinct from (old.content_hash, old.revision) then
    raise exception 'unit version % is immutable: write a new version instead', old.unit_version_id
      using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end
$fn$;

create trigger tac_unit_version_stamp before insert or update on public.tac_unit_version
  for each row execute function nao.stamp_unit_version();

create function nao.touch_updated_at() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if new is distinct from old then
    new.updated_at := clock_timestamp();
  end if;
  return new;
end
$fn$;

create trigger tac_logical_unit_touch before update on public.tac_logical_unit for each row execute function nao.touch_updated_at();
create trigger thread_membership_touch before update on public.thread_membership for each row execute function nao.touch_updated_at();
create trigger expected_artifact_missing_touch before update on public.expected_artifact_missing for each row execute function nao.touch_updated_at();
create trigger universal_edge_touch before update on public.universal_edge for each row execute function nao.touch_updated_at();
create trigger vocabulary_label_touch before update on public.vocabulary_label for each row execute function nao.touch_updated_at();

create function nao.stamp_thread() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if to_jsonb(new) - '{input_revision,updated_at}'::text[] is distinct from to_jsonb(old) - '{input_revision,updated_at}'::text[] then
    new.input_revision := greatest(new.input_revision, old.input_revision + 1);
    new.updated_at := clock_timestamp();
  end if;
  return new;
end
$fn$;

create trigger semantic_thread_stamp before update on public.semantic_thread
  for each row execute function nao.stamp_thread();

-- A thread that comes back under an old id counts its revisions from the start again; no pack of its namesake may pass for fresh.
create function nao.forget_packs() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  delete from nao.thread_context_pack_cache c using new_rows n where c.thread_id = n.thread_id;
  delete from nao.thread_pack_state s using new_rows n where s.thread_id = n.thread_id;
  return null;
end
$fn$;

create trigger forget_packs after insert on public.semantic_thread referencing new table as new_rows
  for each statement execute function nao.forget_packs();

-- Arguments: key columns (comma separated), access columns, columns to ignore, lane of every other change.
create function nao.log_changes() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  key_columns text[] := string_to_array(tg_argv[0], ',');
  access_columns text[] := string_to_array(tg_argv[1], ',');
  ignored_columns text[] := string_to_array(tg_argv[2], ',');
  rest_lane text := tg_argv[3];
  key_of text;
begin
  if tg_op = 'TRUNCATE' then
    insert into nao.change_log (table_name, row_key, op, lane) values (tg_table_name, '*', 'truncate', rest_lane);
  else
    select string_agg(format('(r.%I)::text', c), ' || ''/'' || ') into key_of from unnest(key_columns) as c;
    if tg_op = 'INSERT' then
      execute format('insert into nao.change_log (table_name, row_key, op, lane) select %L, %s, ''insert'', %L from new_rows r', tg_table_name, key_of, rest_lane);
    elsif tg_op = 'DELETE' then
      execute format('insert into nao.change_log (table_name, row_key, op, lane) select %L, %s, ''delete'', %L from old_rows r', tg_table_name, key_of, rest_lane);
    else
      -- A changed primary key is a delete of the old key and an insert of the new one.
      execute format(
        $q$
        with o as (select %2$s as row_key, to_jsonb(r) as j from old_rows r)
           , n as (select %2$s as row_key, to_jsonb(r) as j from new_rows r)
           , pairs as (select coalesce(n.row_key, o.row_key) as row_key, o.j as oj, n.j as nj from o full join n using (row_key))
        insert into nao.change_log (table_name, row_key, op, lane)
        select %1$L, row_key, 'delete', %3$L from pairs where nj is null
        union all
        select %1$L, row_key, 'insert', %3$L from pairs where oj is null
        union all
        select %1$L, row_key, 'update', 'access' from pairs
        where exists (select from unnest($1) as c where oj -> c is distinct from nj -> c and oj is not null and nj is not null)
        union all
        select %1$L, row_key, 'update', %3$L from pairs
        where oj is not null and nj is not null and (oj - $1 - $2) is distinct from (nj - $1 - $2)
        $q$, tg_table_name, key_of, rest_lane) using access_columns, ignored_columns;
    end if;
  end if;
  perform pg_notify('threadhouse_change', tg_table_name);
  return null;
end
$fn$;

create function nao.bump_threads(thread_ids text[]) returns void
language sql set search_path = pg_catalog, pg_temp as $fn$
  update public.semantic_thread set input_revision = input_revision + 1 where thread_id = any (thread_ids)
$fn$;

-- Threads whose packs can show one of these things: as a member, as the document of a member, or at the other end of an edge.
create function nao.threads_near(unit_ids text[], document_ids text[], thread_ids text[]) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $fn$
  with changed as materialized
  ( select 'unit' as kind, unnest(unit_ids) as id
    union select 'document', unnest(document_ids)
    union select 'thread', unnest(thread_ids)
    union select 'unit', logical_unit_id from public.tac_logical_unit where document_id = any (document_ids)
    union select 'document', document_id from public.tac_logical_unit where logical_unit_id = any (unit_ids) )
  , near as
  ( select kind, id from changed
    union select e.target_kind, e.target_id from public.universal_edge e join changed c on e.source_kind = c.kind and e.source_id = c.id
    union select e.source_kind, e.source_id from public.universal_edge e join changed c on e.target_kind = c.kind and e.target_id = c.id )
  , near_units as
  ( select id as logical_unit_id from near where kind = 'unit'
    union select u.logical_unit_id from near join public.tac_logical_unit u on u.document_id = near.id where near.kind = 'document' )
  select array_agg(thread_id) from
  ( select id as thread_id from near where kind = 'thread'
    union select m.thread_id from public.thread_membership m join near_units using (logical_unit_id) ) t
$fn$;

-- Argument: how a changed row names the threads it can affect.
create function nao.bump_affected_threads() returns trigger
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
    when 'membership' then format('select array_agg(distinct thread_id) from (%s) r', rows_sql)
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

do $do$
declare
  t record;
  op text;
  flags constant text := 'visibility,readiness,publication_state,risk_class,authority';
begin
  for t in
    select * from (values
      ('public.production_document', 'document_id', flags || ',data_classification,lifecycle_stage', 'updated_at,source_digest', 'content', 'document'),
      ('public.tac_logical_unit', 'logical_unit_id', flags || ',data_classification,lifecycle_stage', 'updated_at', 'content', 'unit'),
      ('public.semantic_thread', 'thread_id', flags, 'updated_at,input_revision', 'thread', 'thread'),
      ('public.thread_membership', 'thread_id,logical_unit_id', 'status', 'updated_at', 'thread', 'membership'),
      ('public.expected_artifact_missing', 'thread_id,lifecycle_stage,description', '', 'updated_at', 'thread', 'membership'),
      ('public.universal_edge', 'edge_id', '', 'updated_at', 'thread', 'edge'),
      ('public.vocabulary_label', 'label,language', '', 'updated_at', 'thread', null),
      ('nao.health_signal', 'signal_id', '', '', 'thread', 'membership')
    ) as v (tbl, keys, access_columns, ignored_columns, lane, affects)
  loop
    foreach op in array array['insert', 'update', 'delete', 'truncate'] loop
      execute format('create trigger %I after %s on %s %s for each statement execute function nao.log_changes(%L, %L, %L, %L)',
        'log_' || op, op, t.tbl
        , case op when 'insert' then 'referencing new table as new_rows' when 'delete' then 'referencing old table as old_rows'
                  when 'update' then 'referencing old table as old_rows new table as new_rows' else '' end
        , t.keys, t.access_columns, t.ignored_columns, t.lane);
      -- Triggers of one event fire in name order: the log first, then the threads.
      if t.affects is not null then
        execute format('create trigger %I after %s on %s %s for each statement execute function nao.bump_affected_threads(%L)',
          'touch_threads_' || op, op, t.tbl
          , case op when 'insert' then 'referencing new table as new_rows' when 'delete' then 'referencing old table as old_rows'
                    when 'update' then 'referencing old table as old_rows new table as new_rows' else '' end
          , t.affects);
      end if;
    end loop;
  end loop;
end
$do$;
