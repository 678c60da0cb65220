-- Roles of agents and task scopes as policy data, a log of policy changes, and one database role for each audience.
-- The rule about labels is one function, `cong.sees`; what a database role may see comes from the policy in force and nothing else.

alter table cong.audience_filter_policy
  add column if not exists role_grants jsonb not null default '{}'
, add column if not exists task_scope_limits jsonb not null default '{}';
comment on column cong.audience_filter_policy.role_grants is
  '{"role": ["permission", ...]}: permissions that a principal of this role holds.';
comment on column cong.audience_filter_policy.task_scope_limits is
  '{"task scope": ["permission", ...]}: what counts inside a task. A principal with scopes keeps only what one of them names.';

-- Nothing could carry a role before, so the meaning of version 1 is not changed for anybody.
update cong.audience_filter_policy set
  role_grants =
    '{"author": ["read:drafts"]
    , "incident_responder": ["read:incidents"]
    , "archivist": ["read:superseded", "read:withdrawn"]
    , "security_reviewer": ["read:restricted", "read:confidential"]}'
, task_scope_limits =
    '{"authoring": ["read:drafts", "read:superseded"]
    , "incident_response": ["read:incidents"]
    , "archive_research": ["read:superseded", "read:withdrawn"]
    , "security_review": ["read:restricted", "read:confidential", "read:incidents"]}'
where policy_version = 1 and audience = 'ai_agent' and activated_by = 'shipped default';

create table if not exists cong.audience_policy_change
( policy_version int primary key
, previous_version int not null
, applied_at timestamptz not null default clock_timestamp()
, applied_by text not null
, database_user text not null default session_user
, reason text not null
, widens jsonb not null default '[]'
, narrows jsonb not null default '[]'
);
comment on table cong.audience_policy_change is
  'One row for each version that `threadhouse policy apply` put in force: who, why, and what it opened and closed.';

-- One bit for each word that a policy can open. A label without a bit (missing, misspelt, in other case, secret, blocked) is null,
-- and null is never allowed. "C": a case-insensitive collation of an attached column must not make PUBLIC out of public.

create or replace function cong.visibility_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'public' then 1 when 'partner' then 2 when 'employee' then 4 when 'internal' then 8 when 'restricted' then 16 end;

create or replace function cong.readiness_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'draft' then 32 when 'under_review' then 64 when 'approved' then 128 when 'published' then 256
  when 'superseded' then 512 end;

create or replace function cong.publication_state_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'unpublished' then 1024 when 'published' then 2048 when 'withdrawn' then 4096 end;

create or replace function cong.risk_class_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'low' then 8192 when 'standard' then 16384 when 'high' then 32768 end;

create or replace function cong.authority_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'enacted' then 65536 when 'draft' then 131072 when 'runtime' then 262144 end;

create or replace function cong.lifecycle_stage_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'law' then 524288 when 'design' then 1048576 when 'code' then 2097152 when 'test' then 4194304
  when 'report' then 8388608 when 'incident' then 16777216 end;

create or replace function cong.data_classification_bit(label text) returns integer language sql immutable parallel safe
return case label collate "C" when 'unclassified' then 33554432 when 'confidential' then 67108864 end;

create or replace function cong.sees
( visibility text, readiness text, publication_state text, risk_class text, authority text, lifecycle_stage text, data_classification text
, allowed integer ) returns boolean language sql immutable parallel safe
return coalesce(
  ( ( cong.visibility_bit(visibility) | cong.readiness_bit(readiness) | cong.publication_state_bit(publication_state)
    | cong.risk_class_bit(risk_class) | cong.authority_bit(authority) | cong.lifecycle_stage_bit(lifecycle_stage)
    | cong.data_classification_bit(data_classification) ) & ~allowed ) = 0, false);
comment on function cong.sees is
  'Whether something labelled so may be seen: every label is set, known and allowed. The planner puts its text into the statement.';

create or replace function cong.leaves_open
( visibility text, readiness text, publication_state text, risk_class text, authority text, allowed integer )
returns boolean language sql immutable parallel safe
return coalesce(
  ( ( case when visibility is null then 0 else cong.visibility_bit(visibility) end
    | case when readiness is null then 0 else cong.readiness_bit(readiness) end
    | case when publication_state is null then 0 else cong.publication_state_bit(publication_state) end
    | case when risk_class is null then 0 else cong.risk_class_bit(risk_class) end
    | case when authority is null then 0 else cong.authority_bit(authority) end ) & ~allowed ) = 0, false);
comment on function cong.leaves_open is 'Whether a thread''s own flags leave it open: a missing one decides nothing, an unknown one closes.';

create or replace function cong.allowed_labels
( visibility text[], readiness text[], publication_state text[], risk_class text[], authority text[], lifecycle_stage text[]
, data_classification text[] ) returns integer language sql immutable parallel safe
return case when 'public' = any (visibility) then 1 else 0 end | case when 'partner' = any (visibility) then 2 else 0 end
  | case when 'employee' = any (visibility) then 4 else 0 end | case when 'internal' = any (visibility) then 8 else 0 end
  | case when 'restricted' = any (visibility) then 16 else 0 end
  | case when 'draft' = any (readiness) then 32 else 0 end | case when 'under_review' = any (readiness) then 64 else 0 end
  | case when 'approved' = any (readiness) then 128 else 0 end | case when 'published' = any (readiness) then 256 else 0 end
  | case when 'superseded' = any (readiness) then 512 else 0 end
  | case when 'unpublished' = any (publication_state) then 1024 else 0 end | case when 'published' = any (publication_state) then 2048 else 0 end
  | case when 'withdrawn' = any (publication_state) then 4096 else 0 end
  | case when 'low' = any (risk_class) then 8192 else 0 end | case when 'standard' = any (risk_class) then 16384 else 0 end
  | case when 'high' = any (risk_class) then 32768 else 0 end
  | case when 'enacted' = any (authority) then 65536 else 0 end | case when 'draft' = any (authority) then 131072 else 0 end
  | case when 'runtime' = any (authority) then 262144 else 0 end
  | case when 'law' = any (lifecycle_stage) then 524288 else 0 end | case when 'design' = any (lifecycle_stage) then 1048576 else 0 end
  | case when 'code' = any (lifecycle_stage) then 2097152 else 0 end | case when 'test' = any (lifecycle_stage) then 4194304 else 0 end
  | case when 'report' = any (lifecycle_stage) then 8388608 else 0 end | case when 'incident' = any (lifecycle_stage) then 16777216 else 0 end
  | case when 'unclassified' = any (data_classification) then 33554432 else 0 end | case when 'confidential' = any (data_classification) then 67108864 else 0 end;
comment on function cong.allowed_labels is 'Allow-lists as the bits that cong.sees compares; words that no policy can open have none.';

create or replace function cong.policy_in_force() returns integer
language sql stable security definer set search_path = pg_catalog, pg_temp as $fn$
  select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp()
$fn$;

-- The same steps as `retrieval.audience.allowed_values`; a property test holds the two against each other.
create or replace function cong.allowed_by_policy(lane text, claims jsonb) returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
  -- A policy opens high risk and classified material to nobody by itself: the one takes consent, the other clearance.
  high constant integer := 32768;
  confidential constant integer := 67108864;
  rule cong.audience_filter_policy;
  held text[];
  scopes text[];
  fields jsonb;
  allowed integer;
begin
  select p.* into rule from cong.audience_filter_policy p
  where p.audience = lane and p.policy_version =
    (select max(q.policy_version) from cong.audience_filter_policy q where q.activated_at <= statement_timestamp());
  if not found then
    return 0;
  end if;
  allowed := cong.allowed_labels(rule.visibility, rule.readiness, rule.publication_state, rule.risk_class, rule.authority
    , rule.lifecycle_stage, rule.data_classification) & ~high;
  if claims = '{}' then
    return allowed & ~confidential;
  end if;
  held := array(
    select jsonb_array_elements_text(claims -> 'tool_permissions')
    union
    select jsonb_array_elements_text(rule.role_grants -> r.name) from jsonb_array_elements_text(claims -> 'roles') as r (name) );
  scopes := array(select jsonb_array_elements_text(claims -> 'task_scopes'));
  if cardinality(scopes) > 0 then
    held := array(
      select unnest(held) intersect
      select jsonb_array_elements_text(rule.task_scope_limits -> s.name) from unnest(scopes) as s (name) );
  end if;
  for fields in select g.value from jsonb_each(rule.permission_grants) as g where g.key = any (held) loop
    allowed := allowed | cong.allowed_labels(
        array(select jsonb_array_elements_text(fields -> 'visibility'))
      , array(select jsonb_array_elements_text(fields -> 'readiness'))
      , array(select jsonb_array_elements_text(fields -> 'publication_state'))
      , array(select jsonb_array_elements_text(fields -> 'risk_class'))
      , array(select jsonb_array_elements_text(fields -> 'authority'))
      , array(select jsonb_array_elements_text(fields -> 'lifecycle_stage'))
      , array(select jsonb_array_elements_text(fields -> 'data_classification')) ) & ~high;
  end loop;
  if claims -> 'high_risk_consent' = 'true' then
    allowed := allowed | high;
  end if;
  if not coalesce(claims -> 'classifications' ? 'confidential', false) then
    allowed := allowed & ~confidential;
  end if;
  return allowed;
end
$fn$;
comment on function cong.allowed_by_policy is
  'What an audience may see under the policy in force with these claims. Claims can only use what that policy holds for that audience.';

create or replace function cong.current_lane() returns text language sql stable
return case coalesce(nullif(current_setting('role'), 'none'), session_user)
  when 'threadhouse_customer' then 'customer' when 'threadhouse_partner' then 'partner'
  when 'threadhouse_employee' then 'employee' when 'threadhouse_ai_agent' then 'ai_agent' end;
comment on function cong.current_lane is
  'The audience of the role that was set, also inside a function that runs with its owner''s rights; null outside every lane.';

create or replace function cong.allowed_now() returns integer
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
declare
  lane constant text := cong.current_lane();
begin
  if lane is not null then
    return cong.allowed_by_policy(lane, coalesce(nullif(current_setting('threadhouse.claims', true), '')::jsonb, '{}'));
  end if;
  -- Whoever owns the data (the pipeline) can read all of it anyway; anybody else without a lane sees nothing.
  return case when pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)
    , (select relowner from pg_class where oid = 'cong.audience_filter_policy'::regclass), 'MEMBER') then 134217727 else 0 end;
end
$fn$;
comment on function cong.allowed_now is 'What the current role may see: evaluated once a statement, by (select cong.allowed_now()).';

create or replace function cong.usable_role(wanted text) returns text language plpgsql stable set search_path = pg_catalog, pg_temp as $fn$
begin
  if exists (select from pg_roles where rolname = wanted)
    and pg_has_role(session_user, wanted, case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end) then
    return wanted;
  end if;
  return 'none';
end
$fn$;
comment on function cong.usable_role is 'The role itself when it exists and this session may become it, else none.';

-- A second fence, around the tables themselves: a lane that is given rights on them later still sees only what it may.
create or replace function cong.sees_unit(id text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.information_unit v where v.logical_unit_id = id);
end
$fn$;

create or replace function cong.sees_unit_version(id uuid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists
  ( select from public.tac_unit_version t join visible.information_unit v using (logical_unit_id, unit_version_id)
    where t.unit_version_id = id );
end
$fn$;
comment on function cong.sees_unit_version is 'Of a unit, its live version alone: older ones may say what was taken out on purpose.';

create or replace function cong.sees_thread(id text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.semantic_thread v where v.thread_id = id);
end
$fn$;

create or replace function cong.sees_membership(thread text, unit text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.thread_membership v where v.thread_id = thread and v.logical_unit_id = unit);
end
$fn$;

create or replace function cong.sees_whole_document(id text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.production_document v where v.document_id = id and not v.has_units);
end
$fn$;
comment on function cong.sees_whole_document is 'Its text as well: once units took over, the text of the document may hold units that are hidden.';

create or replace function cong.sees_edge(id uuid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.universal_edge v where v.edge_id = id);
end
$fn$;

create or replace function cong.sees_pack(id uuid) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  return exists (select from visible.thread_context_pack v where v.pack_id = id);
end
$fn$;

-- Roles belong to the whole server: several databases, and several migrations at once, meet the same ones. The views file calls this
-- whenever it has run; a database administrator who created missing roles calls it once more.
create or replace function cong.set_up_roles() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
declare
  lane_roles constant text[] := '{threadhouse_customer,threadhouse_partner,threadhouse_employee,threadhouse_ai_agent}';
  wanted text;
  r record;
  lanes text;
begin
  foreach wanted in array lane_roles || '{threadhouse_reader,threadhouse_builder}'::text[] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        -- Noinherit: the reader has to become a lane before it sees what the lane sees.
        execute format('create role %I nologin noinherit', wanted);
      exception
        when duplicate_object or unique_violation then null;
        when insufficient_privilege then null;
      end;
    end if;
  end loop;
  for r in
    select g.rolname as granted, 'threadhouse_reader' as receiver
    from pg_roles g
    where g.rolname = any (lane_roles || 'threadhouse_builder'::text) and exists (select from pg_roles where rolname = 'threadhouse_reader')
    union all
    -- The owner becomes the reader for a question, and through it a lane. A superuser may anyway.
    select g.rolname, current_user from pg_roles g
    where g.rolname = any (lane_roles || '{threadhouse_reader,threadhouse_builder}'::text[])
      and not (select rolsuper from pg_roles where rolname = current_user)
  loop
    begin
      if not exists
        ( select from pg_auth_members m
          join pg_roles a on a.oid = m.roleid and a.rolname = r.granted
          join pg_roles b on b.oid = m.member and b.rolname = r.receiver
          where coalesce(to_jsonb(m) ->> 'set_option', 'true')::boolean ) then
        execute format('grant %I to %I', r.granted, r.receiver);
      end if;
    exception
      -- Two at once: the grant of the other one is as good. "tuple concurrently updated" is an internal error.
      when unique_violation or internal_error then null;
      when insufficient_privilege or invalid_grant_operation then null;
    end;
  end loop;

  select string_agg(quote_ident(rolname), ', ' order by rolname) into lanes from pg_roles where rolname = any (lane_roles);
  for r in
    select * from (values
      ('public.production_document', 'cong.sees_whole_document(document_id)'),
      ('public.tac_logical_unit', 'cong.sees_unit(logical_unit_id)'),
      ('public.tac_unit_version', 'cong.sees_unit_version(unit_version_id)'),
      ('public.semantic_thread', 'cong.sees_thread(thread_id)'),
      ('public.thread_membership', 'cong.sees_membership(thread_id, logical_unit_id)'),
      ('public.expected_artifact_missing', 'cong.sees_thread(thread_id)'
        || ' and coalesce(cong.lifecycle_stage_bit(lifecycle_stage) & ~(select cong.allowed_now()) = 0, false)'),
      ('public.universal_edge', 'cong.sees_edge(edge_id)'),
      ('nao.thread_context_pack_cache',
        'lane = (select cong.current_lane()) and policy_version = (select cong.policy_in_force()) and cong.sees_pack(pack_id)')
    ) as v (tbl, sees)
    where pg_has_role(current_user, (select relowner from pg_class where oid = v.tbl::regclass), 'USAGE')
  loop
    if not (select relrowsecurity from pg_class where oid = r.tbl::regclass) then
      execute format('alter table %s enable row level security', r.tbl);
    end if;
    if not exists (select from pg_policy where polrelid = r.tbl::regclass and polname = 'threadhouse_everybody') then
      -- Whoever is no lane sees what it saw before; without a permissive policy nobody but the owner would see anything.
      execute format('create policy threadhouse_everybody on %s using (true) with check (true)', r.tbl);
    end if;
    if lanes is not null and not exists
      ( select from pg_policy p
        where p.polrelid = r.tbl::regclass and p.polname = 'threadhouse_lanes'
          and cardinality(p.polroles) = (select count(*) from pg_roles where rolname = any (lane_roles)) ) then
      execute format('drop policy if exists threadhouse_lanes on %s', r.tbl);
      execute format('create policy threadhouse_lanes on %s as restrictive to %s using (%s)', r.tbl, lanes, r.sees);
    end if;
  end loop;

  revoke all on all functions in schema visible from public;
  if lanes is not null then
    execute format('grant usage on schema visible, cong, nao to %s', lanes);
    execute format('grant select on all tables in schema visible to %s', lanes);
    execute format('grant execute on all functions in schema visible to %s', lanes);
  end if;
  if exists (select from pg_roles where rolname = 'threadhouse_reader') then
    grant usage on schema cong, nao, source to threadhouse_reader;
    grant select on cong.audience_filter_policy, cong.retrieval_policy, cong.schema_migration, cong.schema_view_set to threadhouse_reader;
    grant select, insert on nao.retrieval_metric_event, nao.delivered_pack, nao.consumer_contract_log, nao.governance_queue_item to threadhouse_reader;
    grant select, insert, update on nao.search_gap_signal to threadhouse_reader;
    grant select, insert, update, delete on nao.thread_context_pack_cache to threadhouse_reader;
    -- What a pack is kept for; no title, no text.
    grant select (thread_id, input_revision) on source.semantic_thread to threadhouse_reader;
  end if;
  if exists (select from pg_roles where rolname = 'threadhouse_builder') then
    grant usage on schema cong, nao, source to threadhouse_builder;
    grant select on all tables in schema source to threadhouse_builder;
    grant select on cong.audience_filter_policy, nao.health_signal to threadhouse_builder;
  end if;
end
$fn$;
comment on function cong.set_up_roles is
  'Creates what is missing of roles, grants and row-level security, as far as the current user may; cong.role_gaps says what is left.';

create or replace function cong.role_gaps() returns table (gap text, meaning text)
language plpgsql stable set search_path = pg_catalog, pg_temp as $fn$
declare
  wanted text;
begin
  foreach wanted in array
    '{threadhouse_customer,threadhouse_partner,threadhouse_employee,threadhouse_ai_agent,threadhouse_reader,threadhouse_builder}'::text[] loop
    if not exists (select from pg_roles where rolname = wanted) then
      return query select format('role %s does not exist', wanted)
        , 'its questions run with the rights of the login, so that only the statements themselves keep hidden rows back'::text;
    elsif cong.usable_role(wanted) = 'none' then
      return query select format('%s may not become %s', session_user, wanted)
        , 'its questions run with the rights of the login, so that only the statements themselves keep hidden rows back'::text;
    elsif wanted not in ('threadhouse_reader', 'threadhouse_builder')
      and not has_table_privilege(wanted, 'visible.information_unit', 'SELECT') then
      return query select format('%s has no rights on the views of schema visible', wanted)
        , 'its questions fail; run select cong.set_up_roles() as the owner of the schemas'::text;
    end if;
  end loop;
  return query
    select format('%s has no row-level security', c.oid::regclass)
      , 'a lane that is given rights on the table itself would see all of it; lanes have none unless somebody gave them'::text
    from pg_class c
    where c.oid = any (array['public.production_document', 'public.tac_logical_unit', 'public.tac_unit_version', 'public.semantic_thread'
      , 'public.thread_membership', 'public.expected_artifact_missing', 'public.universal_edge', 'nao.thread_context_pack_cache']::regclass[])
      and not (c.relrowsecurity and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'threadhouse_lanes'))
    order by c.oid::regclass::text;
end
$fn$;
comment on function cong.role_gaps is 'What of roles and row-level security is not in force, and what that means. Empty: all of it is.';
