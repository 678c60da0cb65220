-- How threads are found by words, and the numbers of thread resolution as versioned rows.
-- PostgreSQL has no text search configuration for Vietnamese, and `unaccent` may be missing on an outside server: folding is ours,
-- in terms that mean the same in every locale (no lower(), no \w). `threadhouse.retrieval.references` does the same to a question.

create function nao.bare_text(t text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select translate(normalize(regexp_replace(normalize(t, nfd), '[\u0300-\u036f]', '', 'g'), nfc)
  , U&'ABCDEFGHIJKLMNOPQRSTUVWXYZ\0110\0111\00A0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200A\202F\205F\3000\0009\000D\000A\2010\2011\2012\2013\2014\2015\2212\FE58\FE63\FF0D\00AD\200B\200C\200D\2060\FEFF'
  , 'abcdefghijklmnopqrstuvwxyzdd                   ----------')
$fn$;
comment on function nao.bare_text is 'ASCII lower case, no marks, đ as d, one kind of space and of dash, nothing invisible.';

create function nao.reference_key(name text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select left(replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
      btrim(regexp_replace(btrim(nao.bare_text(name), e), '@[0-9]+$', ''), e)
    , '(^|[/ ])(d|dieu|article|art)[ .]*(?=[0-9])', '\1dieu ', 'g')
    , '(^|[a-z _-])0+(?=[0-9])', '\1', 'g')
    , '([0-9])[ _-]+(?=[0-9])', '\1~', 'g')
    , '[ _-]+', '', 'g'), '~', '-'), 200)
  from (values (U&' .,;:!?()[]{}"''`\201C\201D\2018\2019\00AB\00BB<>\2026\00A7/#*-_')) as edge (e)
$fn$;
comment on function nao.reference_key is 'The form in which addresses and ids are compared.';

create function nao.address_base(address text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select regexp_replace(address, ' *[/§#].*$', '')
$fn$;
comment on function nao.address_base is 'What comes before the unit in an address: TH-SOP-01 of TH-SOP-01/2, PEP 484 of PEP 484 § Abstract.';

-- Everything that separates words is named, because \w means another thing in every locale.
create function nao.split_words(t text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select btrim(regexp_replace(t, '[\u0001-/:-@\[-^`{-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u206f\u20a0-\u215f\u2190-\u2bff\u3000-\u303f\ufe10-\ufe6f\uff00-\uff0f]+', ' ', 'g'))
$fn$;

create function nao.phrase_key(phrase text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select left(nao.split_words(nao.bare_text(phrase)), 200)
$fn$;
comment on function nao.phrase_key is 'The form in which titles, aliases and labels are looked up.';

-- Lower case with marks; the tone of a final oa, oe, uy on its second vowel, so that both spellings are one word.
create function nao.marked_words(t text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select nao.split_words(normalize(regexp_replace(regexp_replace(
      translate(normalize(t, nfd), U&'ABCDEFGHIJKLMNOPQRSTUVWXYZ\0110', U&'abcdefghijklmnopqrstuvwxyz\0111')
    , '(o)([\u0300\u0301\u0303\u0309\u0323])([ae])(?![a-z0-9_\u0300-\u036f])', '\1\3\2', 'g')
    , '(u)([\u0300\u0301\u0303\u0309\u0323])(y)(?![a-z0-9_\u0300-\u036f])', '\1\3\2', 'g'), nfc))
$fn$;

create table nao.thread_lexicon
( thread_id text primary key
, marked tsvector not null
, folded tsvector not null
);
create index thread_lexicon_folded_idx on nao.thread_lexicon using gin (folded);
comment on table nao.thread_lexicon is
  'Words of a thread''s title (A), aliases (B) and description (D), with marks and folded. Kept by triggers in the change''s own transaction.';

create table nao.lexicon_phrase
( kind text not null check (kind in ('title', 'alias', 'label', 'anchor'))
, target_id text not null
, phrase text not null
, phrase_key text not null
, primary key (kind, target_id, phrase, phrase_key)
);
create index lexicon_phrase_key_idx on nao.lexicon_phrase (phrase_key);
comment on table nao.lexicon_phrase is
  'What a thread or a label of the vocabulary is called, and what a thread is anchored at, in the form it is looked up by.';

-- A text search vector holds one megabyte; a description beyond a hundred thousand characters is no description.
create function nao.words_of_thread(title text, aliases text[], purpose text, description text, folds boolean) returns tsvector
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $fn$
  select setweight(to_tsvector('simple', w.title), 'A') || setweight(to_tsvector('simple', w.aliases), 'B')
      || setweight(to_tsvector('simple', w.rest), 'D')
  from
  ( select case when folds then nao.split_words(nao.bare_text(a)) else nao.marked_words(a) end as title
         , case when folds then nao.split_words(nao.bare_text(b)) else nao.marked_words(b) end as aliases
         , case when folds then nao.split_words(nao.bare_text(c)) else nao.marked_words(c) end as rest
    from (values (left(coalesce(title, ''), 100000)
    , left(array_to_string(coalesce(aliases, '{}'), ' '), 100000)
    , left(coalesce(purpose, '') || ' ' || coalesce(description, ''), 100000))) as v (a, b, c) ) w
$fn$;

create function nao.put_thread_words(id text, title text, aliases text[], anchors text[], purpose text, description text) returns void
language sql set search_path = pg_catalog, pg_temp as $fn$
  insert into nao.thread_lexicon (thread_id, marked, folded)
  values (id, nao.words_of_thread(title, aliases, purpose, description, false), nao.words_of_thread(title, aliases, purpose, description, true))
  on conflict (thread_id) do update set marked = excluded.marked, folded = excluded.folded;
  delete from nao.lexicon_phrase where kind in ('title', 'alias', 'anchor') and target_id = id;
  insert into nao.lexicon_phrase (kind, target_id, phrase, phrase_key)
  select distinct kind, id, phrase, key
  from
  ( select 'title' as kind, title as phrase, nao.phrase_key(title) as key
    union all select 'alias', a, nao.phrase_key(a) from unnest(aliases) a
    union all select 'anchor', a, nao.reference_key(a) from unnest(anchors) a
    union all select 'anchor', a, nao.reference_key(nao.address_base(a)) from unnest(anchors) a ) named
  where key <> '' and length(phrase) <= 2000
$fn$;

create function nao.put_label_words(name text) returns void
language sql set search_path = pg_catalog, pg_temp as $fn$
  delete from nao.lexicon_phrase where kind = 'label' and target_id = name;
  insert into nao.lexicon_phrase (kind, target_id, phrase, phrase_key)
  select distinct 'label', name, phrase, key
  from
  ( select v.label as phrase, nao.phrase_key(replace(v.label, '_', ' ')) as key from public.vocabulary_label v where v.label = name
    union all
    select a, nao.phrase_key(a) from public.vocabulary_label v, unnest(v.aliases) a where v.label = name ) named
  where key <> '' and length(phrase) <= 2000
$fn$;

create function nao.keep_lexicon() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if tg_op = 'TRUNCATE' then
    if tg_argv[0] = 'thread' then
      truncate nao.thread_lexicon;
      delete from nao.lexicon_phrase where kind <> 'label';
    else
      delete from nao.lexicon_phrase where kind = 'label';
    end if;
  elsif tg_argv[0] = 'label' then
    if tg_op <> 'INSERT' then
      perform nao.put_label_words(old.label);
    end if;
    if tg_op <> 'DELETE' then
      perform nao.put_label_words(new.label);
    end if;
  else
    if tg_op <> 'INSERT' and (tg_op = 'DELETE' or new.thread_id <> old.thread_id) then
      delete from nao.thread_lexicon where thread_id = old.thread_id;
      delete from nao.lexicon_phrase where kind <> 'label' and target_id = old.thread_id;
    end if;
    if tg_op <> 'DELETE' then
      perform nao.put_thread_words(new.thread_id, new.title, new.aliases, new.anchors, new.purpose, new.description);
    end if;
  end if;
  return null;
end
$fn$;

-- By column: most updates of a thread only count its input revision.
create trigger keep_lexicon after insert or delete or update of thread_id, title, aliases, anchors, purpose, description
  on public.semantic_thread for each row execute function nao.keep_lexicon('thread');
create trigger keep_lexicon_truncate after truncate on public.semantic_thread for each statement execute function nao.keep_lexicon('thread');
create trigger keep_lexicon after insert or update or delete on public.vocabulary_label for each row execute function nao.keep_lexicon('label');
create trigger keep_lexicon_truncate after truncate on public.vocabulary_label for each statement execute function nao.keep_lexicon('label');

do $do$
begin
  perform nao.put_thread_words(thread_id, title, aliases, anchors, purpose, description) from public.semantic_thread;
  perform nao.put_label_words(label) from (select distinct label from public.vocabulary_label) v;
end
$do$;

-- Names are looked up in the tables themselves, so nothing derived can be out of date.
create index if not exists tac_logical_unit_address_key_idx on public.tac_logical_unit (nao.reference_key(canonical_address));
create index if not exists tac_logical_unit_id_key_idx on public.tac_logical_unit (nao.reference_key(logical_unit_id));
create index if not exists tac_logical_unit_base_key_idx on public.tac_logical_unit (nao.reference_key(nao.address_base(canonical_address)));
create index if not exists semantic_thread_address_key_idx on public.semantic_thread (nao.reference_key(canonical_address));
create index if not exists semantic_thread_id_key_idx on public.semantic_thread (nao.reference_key(thread_id));
create index if not exists production_document_id_key_idx on public.production_document (nao.reference_key(document_id));
create index if not exists production_document_title_key_idx on public.production_document (nao.phrase_key(normalize(title, nfc)));

create table cong.retrieval_policy
( policy_version int not null check (policy_version >= 1)
, space_id text not null
, coefficients jsonb not null
, scales jsonb not null
, ranking jsonb not null
, single_threshold double precision not null check (single_threshold > 0.5 and single_threshold <= 1)
, match_threshold double precision not null check (match_threshold between 0 and 1)
, candidate_floor double precision not null check (candidate_floor between 0 and 1)
, candidate_limit int not null check (candidate_limit between 1 and 100)
, fitted_on jsonb not null default '{}'
, activated_at timestamptz not null default now()
, activated_by text not null default current_user
, primary key (policy_version, space_id)
);
comment on table cong.retrieval_policy is
  'Numbers of thread resolution. A change is a new version with all its rows; the highest activated version is in force.';
comment on column cong.retrieval_policy.space_id is
  'The vector space the numbers were fitted on: cosines of two models do not compare. Empty: every space without a row of its own.';
comment on column cong.retrieval_policy.single_threshold is
  'Above one half: scores of a query add up to at most 1, so no second thread can reach it.';
comment on column cong.retrieval_policy.fitted_on is 'Figures of the calibration that the row came from.';
