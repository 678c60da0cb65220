-- What the lane of the current role may see, row by row: each view holds the labels of a row against the policy in force.
-- The database roles of the audiences have rights here and nowhere else, so that a query without a WHERE shows nothing more.
-- Whoever owns the data (the pipeline) sees all that anybody may; a role that is neither sees nothing.
-- security_barrier: no condition of a query is tried on a row before it is known to be visible.
-- `offset 0` keeps the planner from turning a look at one thread's units into a scan of all units.

-- Ours alone, and made anew whole: a view that is replaced cannot change its columns.
drop schema if exists visible cascade;
create schema visible;
comment on schema visible is 'What the lane of the current role may see.';

create or replace view visible.information_unit with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select i.logical_unit_id, i.document_id, i.canonical_address, i.unit_kind, i.lifecycle_stage, i.ordinal
     , i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.data_classification
     , i.unit_version_id, i.revision, i.title, i.body, i.content_hash, i.created_at
     , i.document_title, i.path, i.language, i.tags
from source.information_unit i
where cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
  , (select allowed from here));

-- A thread without a unit that may be seen does not exist; its own flags can only close it.
create or replace view visible.semantic_thread with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select t.thread_id, t.canonical_address, t.title, t.aliases, t.purpose, t.description, t.labels
     , t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, t.input_revision
     , seen.visibility as seen_visibility, seen.readiness as seen_readiness, seen.publication_state as seen_publication_state
     , seen.risk_class as seen_risk_class, seen.authority as seen_authority, seen.lifecycle_stage as seen_lifecycle_stage
     , seen.data_classification as seen_data_classification
from source.semantic_thread t
cross join lateral
( select i.* from source.thread_membership m
  cross join lateral
  ( select i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
    from source.information_unit i where i.logical_unit_id = m.logical_unit_id offset 0 ) i
  where m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
    and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
      , (select allowed from here))
  -- In the order of the key, member by member until one is seen: else the planner scans all memberships for every thread.
  order by m.logical_unit_id
  limit 1 ) seen
where cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, (select allowed from here));

-- Health checks of threads that may be seen: those that were made of what the reader's lane sees, and those that are for every lane.
create or replace view visible.thread_health with (security_barrier) as
select h.thread_id, h.lane, h.status, h.observed_at, h.signal_id
from nao.health_signal h
cross join lateral (select from visible.semantic_thread t where t.thread_id = h.thread_id offset 0) t
where h.kind = 'thread_health'
  and (h.lane is null or h.lane = (select cong.current_lane()) or (select cong.current_lane()) is null);

-- Memberships that count, of units that may be seen, with the unit's labels. Evidence is for reviewers and may quote anything.
create or replace view visible.thread_membership with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select m.thread_id, m.logical_unit_id, m.role, m.confidence, m.status
     , i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
     , i.created_at as version_created_at
from source.thread_membership m
join source.semantic_thread t using (thread_id)
cross join lateral
( select u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification, u.created_at
  from source.information_unit u where u.logical_unit_id = m.logical_unit_id offset 0 ) i
where m.status in ('confirmed', 'proposed', 'needs_human')
  and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
    , (select allowed from here))
  and cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, (select allowed from here));

-- A document whose units took over is known by its units, and its own text, which holds all of them, is not shown.
create or replace view visible.production_document with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select d.document_id, d.path, d.title, d.tags, case when d.has_units then null else d.body end as body, d.language, d.revision, d.content_hash
     , d.lifecycle_stage, d.data_classification, d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority
     , d.updated_at, d.has_units
from source.production_document d
where case when d.has_units
  then exists
  ( select from source.information_unit i
    where i.document_id = d.document_id
      and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
        , (select allowed from here))
    offset 0 )
  else cong.sees(d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority, d.lifecycle_stage, d.data_classification
    , (select allowed from here)) end;

create or replace view visible.expected_artifact_missing with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select e.thread_id, e.lifecycle_stage, e.description, e.status
from source.expected_artifact_missing e
cross join lateral (select from visible.semantic_thread t where t.thread_id = e.thread_id offset 0) t
where coalesce(cong.lifecycle_stage_bit(e.lifecycle_stage) & ~(select allowed from here) = 0, false);

-- Both ends. What points at nothing says that something was there, and is left to the packs.
create or replace view visible.universal_edge with (security_barrier) as
select e.edge_id, e.source_kind, e.source_id, e.target_kind, e.target_id, e.edge_type
from source.universal_edge e
cross join lateral
( select from (
    select from visible.information_unit u where e.source_kind = 'unit' and u.logical_unit_id = e.source_id
    union all
    select from visible.semantic_thread t where e.source_kind = 'thread' and t.thread_id = e.source_id
    union all
    select from visible.production_document d where e.source_kind = 'document' and d.document_id = e.source_id ) s
  limit 1 ) source_end
cross join lateral
( select from (
    select from visible.information_unit u where e.target_kind = 'unit' and u.logical_unit_id = e.target_id
    union all
    select from visible.semantic_thread t where e.target_kind = 'thread' and t.thread_id = e.target_id
    union all
    select from visible.production_document d where e.target_kind = 'document' and d.document_id = e.target_id ) s
  limit 1 ) target_end;

-- Which version a collection is meant to hold, for owners that may be seen.
create or replace view visible.projected_unit with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select p.physical, p.owner_id, p.version_key
     , i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
from nao.vector_projection p
join source.information_unit i on i.logical_unit_id = p.owner_id
where p.collection = 'information_units'
  and cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
    , (select allowed from here));

create or replace view visible.projected_document with (security_barrier) as
with here as materialized (select cong.allowed_now() as allowed)
select p.physical, p.owner_id, p.version_key
     , d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority, d.lifecycle_stage, d.data_classification
from nao.vector_projection p
join source.production_document d on d.document_id = p.owner_id and not d.has_units
where p.collection = 'production_documents'
  and cong.sees(d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority, d.lifecycle_stage, d.data_classification
    , (select allowed from here));

-- Of what may be seen, documents that a person moved to the side of units, and units whose document a person moved to the legacy side.
create or replace view visible.moved_document with (security_barrier) as
select s.document_id
from nao.document_side s
cross join lateral (select from visible.production_document d where d.document_id = s.document_id and d.has_units offset 0) d;

create or replace view visible.moved_unit with (security_barrier) as
select h.logical_unit_id
from nao.held_unit h
cross join lateral (select from visible.production_document d where d.document_id = h.document_id offset 0) d;

-- A centroid is its lane's alone, whatever else the reader may see.
create or replace view visible.projected_centroid with (security_barrier) as
select p.physical, p.owner_id, p.version_key, t.thread_id, p.lane
     , t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority
     , t.seen_visibility, t.seen_readiness, t.seen_publication_state, t.seen_risk_class, t.seen_authority, t.seen_lifecycle_stage
     , t.seen_data_classification
from
( select physical, owner_id, version_key
       , left(owner_id, length(owner_id) - length(split_part(owner_id, '/', -1)) - 1) as thread_id
       , split_part(owner_id, '/', -1) as lane
  from nao.vector_projection
  where collection = 'thread_centroids' ) p
cross join lateral (select t.* from visible.semantic_thread t where t.thread_id = p.thread_id offset 0) t
where p.lane = (select cong.current_lane()) or (select cong.current_lane()) is null;

-- What a stored pack of the reader's lane was built from; without its content, so that it can be told why a pack is stale.
create or replace view visible.thread_context_pack_key with (security_barrier) as
select c.thread_id, c.lane, c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version
from nao.thread_context_pack_cache c
cross join lateral (select from visible.semantic_thread t where t.thread_id = c.thread_id offset 0) t
where c.lane = (select cong.current_lane()) or (select cong.current_lane()) is null;

-- Content only of packs that are built from what is there now: an older one may hold what has been hidden since.
create or replace view visible.thread_context_pack with (security_barrier) as
select c.thread_id, c.lane, c.pack_id, c.input_revision, c.policy_version, c.space_id, c.code_version, c.pack, c.built_at
from nao.thread_context_pack_cache c
cross join lateral (select t.input_revision from visible.semantic_thread t where t.thread_id = c.thread_id offset 0) t
where (c.lane = (select cong.current_lane()) or (select cong.current_lane()) is null)
  and c.input_revision = t.input_revision and c.policy_version = (select cong.policy_in_force());

-- One thread, if these rights leave it open and show one of its units: `visible.semantic_thread` with rights that are given. For functions
-- with their owner's rights alone, since it has none of its own; without settings, so that the planner puts it into the statement.
create or replace function visible.thread_seen_with(id text, allowed integer) returns table (thread_id text)
language sql stable rows 1 as $fn$
  select t.thread_id
  from source.semantic_thread t
  cross join lateral
  ( select from source.thread_membership m
    cross join lateral
    ( select u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
      from source.information_unit u where u.logical_unit_id = m.logical_unit_id offset 0 ) u
    where m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
      and cong.sees(u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification, allowed)
    order by m.logical_unit_id
    limit 1 ) seen_unit
  where t.thread_id = id and cong.leaves_open(t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority, allowed)
  offset 0
$fn$;

-- Everything that names and words say about threads, over those that may be seen and through units that may be seen. A function with its
-- owner's rights, because no index on words or keys can be used behind a security barrier (their operators are not leakproof), and
-- looking every unit through would tell by its time how many there are. `allowed` can only take away from what the role may see.
create or replace function visible.threads_named
( reference_keys text[], phrase_keys text[], marked_terms tsquery, folded_terms tsquery, word_limit integer, allowed integer )
returns table (thread_id text, signal text, value double precision, wording text, label text)
language plpgsql stable security definer rows 50 set search_path = pg_catalog, pg_temp as $fn$
#variable_conflict use_column
declare
  allowed_here constant integer := allowed & cong.allowed_now();
begin
  return query
  with named_unit as materialized
  ( select logical_unit_id, 'unit' as how from source.information_unit
    where nao.reference_key(canonical_address) = any (reference_keys)
    union
    select logical_unit_id, 'unit' from source.information_unit where nao.reference_key(logical_unit_id) = any (reference_keys)
    union
    select logical_unit_id, 'document' from source.information_unit
    where nao.reference_key(nao.address_base(canonical_address)) = any (reference_keys)
    union
    select u.logical_unit_id, 'document'
    from
    ( select document_id from source.production_document where nao.reference_key(document_id) = any (reference_keys)
      union
      select document_id from source.production_document
      where nao.phrase_key(title) = any (phrase_keys) and nao.phrase_key(title) like '% %' ) d
    cross join lateral
    ( select i.logical_unit_id from source.information_unit i where i.document_id = d.document_id offset 0 ) as u )
  , seen_unit_of_name as materialized
  ( select n.logical_unit_id, n.how, u.canonical_address
    from named_unit n
    cross join lateral
    ( select i.canonical_address, i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority
           , i.lifecycle_stage, i.data_classification
      from source.information_unit i
      where i.logical_unit_id = n.logical_unit_id
      offset 0 ) as u
    where cong.sees(u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification, allowed_here) )
  , named (thread_id, signal, value, wording, label) as materialized
  ( select t.thread_id, 'thread' as signal, 1::double precision as value, t.canonical_address as wording, '' as label
    from source.semantic_thread t
    where nao.reference_key(t.canonical_address) = any (reference_keys)
    union
    select t.thread_id, 'thread', 1, t.thread_id, '' from source.semantic_thread t
    where nao.reference_key(t.thread_id) = any (reference_keys)
    union all
    select m.thread_id, n.how
         , case n.how when 'unit' then max(m.confidence * case m.role when 'canonical' then 1 else 0.95 end) else count(*) end
         , min(n.canonical_address), ''
    from seen_unit_of_name n
    join source.thread_membership m using (logical_unit_id)
    where m.status in ('confirmed', 'proposed', 'needs_human')
    group by m.thread_id, n.how
    union all
    -- An anchor counts when the reader sees a unit of that name; else anchors would tell of units that it does not see.
    select p.target_id, 'anchor', 1, p.phrase, ''
    from nao.lexicon_phrase p
    where p.kind = 'anchor'
      and ( p.phrase_key in (select nao.reference_key(n.canonical_address) from seen_unit_of_name n)
         or p.phrase_key in (select nao.reference_key(nao.address_base(n.canonical_address)) from seen_unit_of_name n) )
    union all
    select p.target_id, p.kind, 1, p.phrase, ''
    from nao.lexicon_phrase p
    where p.kind in ('title', 'alias') and p.phrase_key = any (phrase_keys)
    union all
    select t.thread_id, 'label', 1, p.phrase, p.target_id
    from nao.lexicon_phrase p
    join source.semantic_thread t on p.target_id = any (t.labels)
    where p.kind = 'label' and p.phrase_key = any (phrase_keys) )
  , worded as
  ( select l.thread_id
         , ts_rank(l.marked, marked_terms) + ts_rank(l.folded, folded_terms) as rank
    from nao.thread_lexicon l
    where l.folded @@ folded_terms
    order by rank desc, l.thread_id )
  , seen_worded as
  ( -- Best first, and no further than the limit: a thread that the reader does not see takes no place of one that it sees.
    select w.thread_id, 'words' as signal, w.rank::double precision as value, '' as wording, '' as label
    from worded w
    cross join lateral visible.thread_seen_with(w.thread_id, allowed_here) t
    limit word_limit )
  , seen_named as
  ( select n.thread_id, n.signal, n.value, n.wording, n.label
    from named n
    where n.thread_id in
    ( select t.thread_id
      from (select distinct thread_id from named) d
      cross join lateral visible.thread_seen_with(d.thread_id, allowed_here) t ) )
  select thread_id, signal, value, wording, label from seen_named
  union all
  select thread_id, signal, value, wording, label from seen_worded;
end
$fn$;

select cong.set_up_roles();
