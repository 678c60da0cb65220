-- What users own. Created only when absent, so that an existing hub keeps its own tables.
-- Text is NFC on write: one spelling, one hash, one offset. A flag may be missing (null), which hides; it may not be unknown.

create table if not exists public.production_document
( document_id text primary key check (document_id <> '')
, path text not null unique
, title text not null check (title is nfc normalized)
, tags text[] not null default '{}'
, body text not null check (body is nfc normalized)
, language text not null check (language ~ '^[a-z]{2,3}(-[A-Za-z0-9]+)*$')
, revision int not null default 1 check (revision >= 1)
, content_hash text not null default ''
, source_digest text
, lifecycle_stage text check (lifecycle_stage in ('law', 'design', 'code', 'test', 'report', 'incident'))
, data_classification text not null default 'unclassified'
    check (data_classification in ('unclassified', 'confidential', 'secret', 'blocked'))
, visibility text check (visibility in ('public', 'partner', 'employee', 'internal', 'restricted'))
, readiness text check (readiness in ('draft', 'under_review', 'approved', 'published', 'superseded'))
, publication_state text check (publication_state in ('unpublished', 'published', 'withdrawn'))
, risk_class text check (risk_class in ('low', 'standard', 'high'))
, authority text check (authority in ('enacted', 'draft', 'runtime'))
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
);
comment on column public.production_document.source_digest is
  'sha256 of the row as last loaded; equal means nothing to do. Null for rows that were not loaded.';

create table if not exists public.tac_logical_unit
( logical_unit_id text primary key check (logical_unit_id <> '')
, document_id text not null references public.production_document on delete cascade on update cascade
, canonical_address text not null unique check (canonical_address is nfc normalized and canonical_address <> '')
, unit_kind text not null
, lifecycle_stage text not null check (lifecycle_stage in ('law', 'design', 'code', 'test', 'report', 'incident'))
, ordinal int not null default 0
, visibility text check (visibility in ('public', 'partner', 'employee', 'internal', 'restricted'))
, readiness text check (readiness in ('draft', 'under_review', 'approved', 'published', 'superseded'))
, publication_state text check (publication_state in ('unpublished', 'published', 'withdrawn'))
, risk_class text check (risk_class in ('low', 'standard', 'high'))
, authority text check (authority in ('enacted', 'draft', 'runtime'))
, data_classification text not null default 'unclassified'
    check (data_classification in ('unclassified', 'confidential', 'secret', 'blocked'))
, current_version_id uuid
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
);
create index if not exists tac_logical_unit_document_idx on public.tac_logical_unit (document_id, ordinal);

create table if not exists public.tac_unit_version
( unit_version_id uuid primary key
, logical_unit_id text not null references public.tac_logical_unit on delete cascade on update cascade
, revision int not null check (revision >= 1)
, title text not null check (title is nfc normalized)
, body text not null check (body is nfc normalized and body <> '')
, content_hash text not null default ''
, created_at timestamptz not null default now()
, unique (logical_unit_id, revision)
, unique (logical_unit_id, unit_version_id)
);

-- The pair, not the id alone: a unit cannot point at another unit's version.
alter table public.tac_logical_unit drop constraint if exists tac_logical_unit_current_version_fk;
alter table public.tac_logical_unit add constraint tac_logical_unit_current_version_fk
  foreign key (logical_unit_id, current_version_id)
  references public.tac_unit_version (logical_unit_id, unit_version_id)
  on update cascade on delete set null (current_version_id) deferrable initially deferred;

create table if not exists public.semantic_thread
( thread_id text primary key check (thread_id <> '')
, canonical_address text not null unique
, title text not null check (title is nfc normalized)
, aliases text[] not null default '{}'
, purpose text not null default ''
, description text not null default ''
, labels text[] not null default '{}'
, anchors text[] not null default '{}'
, owner text
, visibility text check (visibility in ('public', 'partner', 'employee', 'internal', 'restricted'))
, readiness text check (readiness in ('draft', 'under_review', 'approved', 'published', 'superseded'))
, publication_state text check (publication_state in ('unpublished', 'published', 'withdrawn'))
, risk_class text check (risk_class in ('low', 'standard', 'high'))
, authority text check (authority in ('enacted', 'draft', 'runtime'))
, input_revision bigint not null default 1
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
);
comment on column public.semantic_thread.input_revision is
  'Counts every change that can alter a context pack of this thread; kept by triggers, compared by every reader.';

create table if not exists public.thread_membership
( thread_id text not null references public.semantic_thread on delete cascade on update cascade
, logical_unit_id text not null references public.tac_logical_unit on delete cascade on update cascade
, role text not null check (role in ('canonical', 'supporting', 'report'))
, confidence double precision not null check (confidence between 0 and 1)
, status text not null check (status in ('confirmed', 'proposed', 'needs_human', 'rejected'))
, evidence text
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
, primary key (thread_id, logical_unit_id)
);
create index if not exists thread_membership_unit_idx on public.thread_membership (logical_unit_id);

create table if not exists public.expected_artifact_missing
( thread_id text not null references public.semantic_thread on delete cascade on update cascade
, lifecycle_stage text not null check (lifecycle_stage in ('law', 'design', 'code', 'test', 'report', 'incident'))
, description text not null
, status text not null default 'open' check (status in ('open', 'resolved'))
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
, primary key (thread_id, lifecycle_stage, description)
);

-- Ends are plain text on purpose: an edge may dangle, and readers show it as dangling.
create table if not exists public.universal_edge
( edge_id uuid primary key
, source_kind text not null check (source_kind in ('unit', 'document', 'thread'))
, source_id text not null
, target_kind text not null check (target_kind in ('unit', 'document', 'thread'))
, target_id text not null
, edge_type text not null
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
, unique (source_kind, source_id, target_kind, target_id, edge_type)
);
create index if not exists universal_edge_target_idx on public.universal_edge (target_kind, target_id);

create table if not exists public.vocabulary_label
( label text not null
, language text not null
, aliases text[] not null default '{}'
, description text not null default ''
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
, primary key (label, language)
);
