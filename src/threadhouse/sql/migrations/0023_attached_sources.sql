-- An existing database, read through its owner's own views. Their tables are never changed; what changed in them is found by triggers that
-- only note a key, or by comparing what the views show with what they showed before.

create table nao.attached_file
( attached_at timestamptz primary key default clock_timestamp()
, attached_by text not null default session_user
, file_name text not null
, sha256 text not null
, body text not null
, wants_triggers boolean not null
);
comment on table nao.attached_file is 'Every file of views that was attached; the latest is in force. A row without text is a detachment.';

-- What the views of schema source are to the change log. Id columns are those by which a trigger may say what it touched.
create table nao.source_view
( view_name text primary key
, table_name text not null
, key_columns text[] not null
, id_columns text[] not null
, access_columns text[] not null
, ignored_columns text[] not null
, lane text not null check (lane in ('content', 'thread'))
);
insert into nao.source_view values
  ( 'production_document', 'production_document', '{document_id}', '{document_id}'
  , '{visibility,readiness,publication_state,risk_class,authority,data_classification,lifecycle_stage}', '{updated_at,has_units}', 'content' )
, ( 'information_unit', 'tac_logical_unit', '{logical_unit_id}', '{logical_unit_id,document_id}'
  , '{visibility,readiness,publication_state,risk_class,authority,data_classification,lifecycle_stage}', '{created_at}', 'content' )
, ( 'semantic_thread', 'semantic_thread', '{thread_id}', '{thread_id}'
  , '{visibility,readiness,publication_state,risk_class,authority}', '{input_revision}', 'thread' )
, ( 'thread_membership', 'thread_membership', '{thread_id,logical_unit_id}', '{thread_id,logical_unit_id}', '{status}', '{}', 'thread' )
, ( 'expected_artifact_missing', 'expected_artifact_missing', '{thread_id,lifecycle_stage,description}', '{thread_id}', '{}', '{}', 'thread' )
, ( 'universal_edge', 'universal_edge', '{edge_id}', '{edge_id,source_id,target_id}', '{}', '{}', 'thread' )
, ( 'vocabulary_label', 'vocabulary_label', '{label,language}', '{label}', '{}', '{}', 'thread' );

create table nao.source_row
( view_name text not null references nao.source_view on delete cascade
, row_key text not null
, ids text[] not null
, access_digest bytea not null
, rest_digest bytea not null
, primary key (view_name, row_key)
);
create index source_row_ids_idx on nao.source_row using gin (ids);
comment on table nao.source_row is 'What each row of an attached view was when it was last compared.';
comment on column nao.source_row.ids is 'Of the id columns: name, =, value.';

create table nao.source_touch
( touch_id bigint generated always as identity primary key
, view_name text not null
, id text not null
, touched_at timestamptz not null default clock_timestamp()
);
comment on table nao.source_touch is 'Keys that triggers on attached tables noted, until they are compared. * stands for the whole view.';

create table nao.source_watermark
( view_name text primary key
, watermark text not null
, compared_at timestamptz not null default clock_timestamp()
);
comment on table nao.source_watermark is
  'The server''s counts of writes to the tables behind an attached view, as they were before it was last compared whole.';

create table nao.attached_thread_revision
( thread_id text primary key
, input_revision bigint not null
);
comment on table nao.attached_thread_revision is
  'Counts every change that can alter a context pack of a thread that is not ours; never deleted, so that a namesake goes on counting.';

-- For views over tables that keep no versions: another text is another version.
create function nao.text_version(id text, title text, body text) returns uuid
language sql immutable parallel safe
return encode(substring(sha256(convert_to(coalesce(id, '') || e'\n' || coalesce(title, '') || e'\n' || coalesce(body, ''), 'UTF8')) for 16), 'hex')::uuid;

create function nao.text_hash(title text, body text) returns text
language sql immutable parallel safe
return encode(sha256(convert_to(title || e'\n' || body, 'UTF8')), 'hex');

-- On tables that are not ours. Arguments: column, view and id column, three by three. It does no more than note, with the rights of its
-- owner, and whatever goes wrong is no fault of whoever writes: the next comparison of the whole view finds it.
create function nao.note_touched() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
declare
  n int := 0;
begin
  while n < tg_nargs loop
    if tg_op = 'TRUNCATE' then
      insert into nao.source_touch (view_name, id) values (tg_argv[n + 1], '*');
    else
      execute format(
        'insert into nao.source_touch (view_name, id) select %L, %L || t.value from (' || case tg_op
          when 'INSERT' then 'select (r.%3$I)::text as value from new_rows r union select null'
          when 'DELETE' then 'select (r.%3$I)::text as value from old_rows r union select null'
          else 'select (r.%3$I)::text as value from old_rows r union select (r.%3$I)::text from new_rows r' end
        || ') t where t.value is not null'
        , tg_argv[n + 1], tg_argv[n + 2] || '=', tg_argv[n]);
    end if;
    n := n + 3;
  end loop;
  perform pg_notify('threadhouse_change', tg_table_name);
  return null;
exception when others then
  raise warning 'Threadhouse did not note a change of %: %', tg_table_name, sqlerrm;
  return null;
end
$fn$;

revoke all on function nao.note_touched() from public;

-- Threads whose packs can show one of these things, by the views; the same steps as nao.threads_near takes in our own tables.
create function nao.attached_threads_near(unit_ids text[], document_ids text[], thread_ids text[]) returns text[]
language plpgsql stable set search_path = pg_catalog, pg_temp as $fn$
begin
  return
  ( with changed as materialized
  ( select 'unit' as kind, unnest(unit_ids) as id
    union select 'document', unnest(document_ids)
    union select 'thread', unnest(thread_ids)
    union select 'unit', logical_unit_id from source.information_unit where document_id = any (document_ids)
    union select 'document', document_id from source.information_unit where logical_unit_id = any (unit_ids) )
  , linked as materialized
  ( select kind, id from changed
    union select 'thread', m.thread_id from changed c join source.thread_membership m on c.kind = 'unit' and m.logical_unit_id = c.id )
  , near as
  ( select kind, id from linked
    union select e.target_kind, e.target_id from source.universal_edge e join linked l on e.source_kind = l.kind and e.source_id = l.id
    union select e.source_kind, e.source_id from source.universal_edge e join linked l on e.target_kind = l.kind and e.target_id = l.id )
  , near_units as
  ( select id as logical_unit_id from near where kind = 'unit'
    union select u.logical_unit_id from near join source.information_unit u on u.document_id = near.id where near.kind = 'document' )
  select coalesce(array_agg(distinct thread_id), '{}') from
  ( select id as thread_id from near where kind = 'thread'
    union select m.thread_id from source.thread_membership m join near_units using (logical_unit_id) ) t where thread_id is not null );
end
$fn$;

-- Compare what an attached view shows with what it showed, all of it (ids null) or the rows with one of these ids; log and remember what
-- differs, and count up the threads that it can affect. Returns how many rows the log got. The caller holds a lock.
create function nao.follow_source(viewed text, touched text[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  shape nao.source_view;
  id_texts text;
  logged bigint;
  concerned text[];
  affected text[];
begin
  select v.* into strict shape from nao.source_view v where v.view_name = viewed;
  select string_agg(format('%L || (a.%I)::text', c || '=', c), ', ') into id_texts from unnest(shape.id_columns) as c;
  execute format(
    $q$
    create temporary table source_seen on commit drop as
    -- A row without a key, or with that of another, is nobody's: `attach --check` names it.
    select distinct on (1) %1$s as row_key
         , array_remove(array[%2$s], null) as ids
         , sha256(convert_to(coalesce((select jsonb_object_agg(c, a.j -> c) from unnest($1) as c), '{}')::text, 'UTF8')) as access_digest
         , sha256(convert_to((a.j - $1 - $2)::text, 'UTF8')) as rest_digest
    from (select v.*, to_jsonb(v) as j from attached.%3$I v) a
    where %1$s is not null and ($3 is null or %4$s)
    order by 1, 3, 4
    $q$
    , (select string_agg(format('(a.%I)::text', c), ' || ''/'' || ' order by n) from unnest(shape.key_columns) with ordinality as k (c, n))
    , id_texts, viewed
    -- Each id column apart, with its type left alone, so that an index behind the view can be used.
    , (select string_agg(format(
        '(a.%1$I)::text in (select substring(t from %2$s) from unnest($3) as t where starts_with(t, %3$L))', c, length(c) + 2, c || '=')
        , ' or ') from unnest(shape.id_columns) as c)
    ) using shape.access_columns, shape.ignored_columns, touched;
  create temporary table source_differs on commit drop as
  select coalesce(n.row_key, o.row_key) as row_key, o.ids as old_ids, n.ids as new_ids
       , o.row_key is null as is_new, n.row_key is null as is_gone
       , n.access_digest is distinct from o.access_digest as has_other_access, n.rest_digest is distinct from o.rest_digest as has_other_rest
       , n.access_digest, n.rest_digest
  from pg_temp.source_seen n
  full join (select r.* from nao.source_row r where r.view_name = viewed and (touched is null or r.ids && touched
    or r.row_key in (select s.row_key from pg_temp.source_seen s))) o using (row_key)
  where (n.access_digest, n.rest_digest, n.ids) is distinct from (o.access_digest, o.rest_digest, o.ids);

  insert into nao.change_log (table_name, row_key, op, lane)
  select shape.table_name, d.row_key, case when d.is_gone then 'delete' when d.is_new then 'insert' else 'update' end, l.lane
  from pg_temp.source_differs d
  cross join lateral
  ( select 'access' as lane where not d.is_gone and not d.is_new and d.has_other_access
    union all
    select shape.lane where d.is_gone or d.is_new or d.has_other_rest or d.new_ids is distinct from d.old_ids ) l
  -- Revokes are followed before anything else, deletions are revokes of everything.
  order by l.lane = 'access' desc, d.is_gone desc;
  get diagnostics logged = row_count;

  if logged > 0 then
    delete from nao.source_row r using pg_temp.source_differs d where r.view_name = viewed and r.row_key = d.row_key and d.is_gone;
    insert into nao.source_row as r (view_name, row_key, ids, access_digest, rest_digest)
    select viewed, d.row_key, d.new_ids, d.access_digest, d.rest_digest from pg_temp.source_differs d where not d.is_gone
    on conflict (view_name, row_key) do update set
      ids = excluded.ids, access_digest = excluded.access_digest, rest_digest = excluded.rest_digest;
    select array_agg(distinct i) into concerned from pg_temp.source_differs d
    cross join lateral unnest(coalesce(d.old_ids, '{}') || coalesce(d.new_ids, '{}')) as i;
    -- An end of an edge may be a unit, a document or a thread.
    select nao.attached_threads_near(
        coalesce(array_agg(substring(i from position('=' in i) + 1)) filter (where i ~ '^(logical_unit|source|target)_id='), '{}')
      , coalesce(array_agg(substring(i from position('=' in i) + 1)) filter (where i ~ '^(document|source|target)_id='), '{}')
      , coalesce(array_agg(substring(i from position('=' in i) + 1)) filter (where i ~ '^(thread|source|target)_id='), '{}') )
      into affected from unnest(concerned) as i;
    insert into nao.attached_thread_revision as r (thread_id, input_revision)
    select unnest(affected), 2
    on conflict (thread_id) do update set input_revision = r.input_revision + 1;
    perform nao.bump_threads(affected);
    perform pg_notify('threadhouse_change', shape.table_name);
  end if;
  drop table pg_temp.source_seen, pg_temp.source_differs;
  return logged;
end
$fn$;

-- The tables behind each attached view, through views of theirs as well, and what the server counted of writes to them.
create function nao.attached_tables() returns table (view_name text, base oid, relation_kind "char", writes text)
language sql stable set search_path = pg_catalog, pg_temp as $fn$
  with recursive behind as
  ( select c.relname::text as view_name, c.oid as relation, c.relkind as relation_kind, c.relfilenode
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'attached' and c.relkind = 'v'
    union
    select b.view_name, c.oid, c.relkind, c.relfilenode
    from behind b
    join pg_rewrite r on r.ev_class = b.relation and b.relation_kind in ('v', 'm')
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
    join pg_class c on c.oid = d.refobjid and c.oid <> b.relation )
  select b.view_name, b.relation, b.relation_kind
       , b.relfilenode::text || ':' || coalesce((select sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del) from pg_stat_all_tables s
           where s.relid = b.relation or s.relid in (select p.relid from pg_partition_tree(b.relation) p)), 0)::text
  from behind b
  where b.relation_kind in ('r', 'p', 'f', 'm')
$fn$;
