-- What Threadhouse computes. Everything here can be dropped and built again, except events, signals and the contract log.

create schema if not exists nao;
comment on schema nao is 'Computed layer ("Não"): projections, caches, events, signals.';

create table nao.change_log
( change_id bigint generated always as identity primary key
, transaction_id xid8 not null default pg_current_xact_id()
, table_name text not null
, row_key text not null
, op text not null check (op in ('insert', 'update', 'delete', 'truncate'))
, lane text not null check (lane in ('access', 'content', 'thread'))
, changed_at timestamptz not null default clock_timestamp()
);
comment on column nao.change_log.transaction_id is
  'Commit order is not id order; a reader takes only rows below pg_snapshot_xmin(pg_current_snapshot()).';

create table nao.quarantined_item
( quarantine_id bigint generated always as identity primary key
, source text not null
, item_key text not null
, field text not null default ''
, reason text not null
, file text
, line int
, raw text
, occurrence_count int not null default 1
, first_seen_at timestamptz not null default now()
, last_seen_at timestamptz not null default now()
, resolved_at timestamptz
, unique nulls not distinct (source, item_key, field, reason)
);
create index quarantined_item_open_idx on nao.quarantined_item (source) where resolved_at is null;

create table nao.embedding_cache
( space_id text not null
, role text not null check (role in ('passage', 'query', 'long_passage'))
, text_hash text not null check (text_hash ~ '^[0-9a-f]{64}$')
, vector bytea not null
, created_at timestamptz not null default now()
, primary key (space_id, role, text_hash)
);

create table nao.vector_projection
( physical text not null
, owner_id text not null
, collection text not null check (collection in ('production_documents', 'information_units', 'thread_centroids'))
, version_key text not null
, chunk_count int not null check (chunk_count >= 0)
, space_id text not null
, chunker_version text not null
, content_digest text not null
, payload_digest text not null
, published_at timestamptz not null default now()
, primary key (physical, owner_id)
);
comment on table nao.vector_projection is
  'Which version of which owner each collection holds. The pointer a reader trusts: a hit of another version is dropped.';

create table nao.thread_context_pack_cache
( thread_id text not null
, lane text not null check (lane in ('customer', 'partner', 'employee', 'ai_agent'))
, pack_id uuid not null unique
, input_revision bigint not null
, policy_version int not null
, space_id text not null
, code_version text not null
, input_digest text not null
, pack jsonb not null
, built_at timestamptz not null default now()
, build_ms double precision not null
, primary key (thread_id, lane)
);

create table nao.thread_pack_state
( thread_id text primary key
, input_revision bigint not null
, policy_version int not null
, space_id text not null
, code_version text not null
, built_at timestamptz not null default now()
);
comment on table nao.thread_pack_state is
  'What a thread''s packs of all lanes were last built from. A lane that sees nothing leaves no pack, so packs alone cannot tell.';

create table nao.retrieval_metric_event
( event_id uuid primary key
, ingest_seq bigint generated always as identity
, event_version int not null default 1
, occurred_at timestamptz not null
, ingested_at timestamptz not null default now()
, type text not null
, query_id uuid
, session_id text
, lane text check (lane in ('customer', 'partner', 'employee', 'ai_agent'))
, thread_id text
, resolution_path text check (resolution_path in ('thread', 'candidates', 'fallback', 'none'))
, reason text
, latency_ms double precision check (latency_ms >= 0)
, query_text text
, details jsonb not null default '{}'
);
create index retrieval_metric_event_occurred_idx on nao.retrieval_metric_event (occurred_at);
create index retrieval_metric_event_query_idx on nao.retrieval_metric_event (query_id);

create table nao.retrieval_metric_aggregate
( local_day date not null
, lane text not null check (lane in ('customer', 'partner', 'employee', 'ai_agent', 'overall'))
, thread_id text not null default ''
, metric text not null
, numerator bigint not null check (numerator >= 0)
, denominator bigint check (denominator >= 0)
, rate double precision check (rate between 0 and 1)
, wilson_low double precision check (wilson_low between 0 and 1)
, wilson_high double precision check (wilson_high between 0 and 1)
, requires_instrumentation boolean not null default false
, target double precision
, revision int not null default 1
, restated_reason text
, computed_at timestamptz not null default now()
, primary key (local_day, lane, thread_id, metric)
, check (numerator <= denominator)
, check ((rate is null) = (coalesce(denominator, 0) = 0))
);
comment on column nao.retrieval_metric_aggregate.thread_id is 'Empty string: over all threads.';

create table nao.search_gap_signal
( signal_id uuid primary key
, kind text not null check (kind in ('search_gap', 'missing_thread', 'weak_thread', 'noisy_thread', 'wrong_audience_result', 'expected_artifact_missing'))
, cause_key text not null
, thread_id text
, lane text
, severity text not null default 'normal' check (severity in ('low', 'normal', 'high', 'security'))
, status text not null default 'open' check (status in ('open', 'acknowledged', 'fixed', 'reopened'))
, occurrence_count int not null default 1
, evidence jsonb not null default '{}'
, first_seen_at timestamptz not null default now()
, last_seen_at timestamptz not null default now()
, unique (kind, cause_key)
);

create table nao.health_signal
( signal_id uuid primary key
, thread_id text not null
, kind text not null default 'thread_health' check (kind in ('thread_health', 'wrong_link'))
, status text not null check (status in ('healthy', 'stale', 'overbroad', 'too_narrow', 'noisy_retrieval', 'weak', 'open', 'resolved'))
, logical_unit_id text
, evidence jsonb not null default '{}'
, observed_at timestamptz not null default now()
);
create index health_signal_thread_idx on nao.health_signal (thread_id, kind, observed_at desc);

create table nao.decision_backlog_item
( item_id uuid primary key
, signal_id uuid references nao.search_gap_signal on delete set null
, title text not null
, status text not null default 'open' check (status in ('open', 'acknowledged', 'done', 'rejected'))
, evidence jsonb not null default '{}'
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
);

create table nao.governance_queue_item
( item_id uuid primary key
, kind text not null check (kind in ('governance', 'risk_review'))
, signal_id uuid references nao.search_gap_signal on delete set null
, title text not null
, status text not null default 'open' check (status in ('open', 'closed'))
, evidence jsonb not null default '{}'
, created_at timestamptz not null default now()
, closed_at timestamptz
, closed_by text
, closing_reason text
);

create table nao.consumer_contract_log
( entry_id uuid primary key
, occurred_at timestamptz not null default now()
, kind text not null
, subject text not null
, lane text
, pack_id uuid
, details jsonb not null default '{}'
);

create table nao.thread_intake_proposal
( proposal_id uuid primary key
, lane text not null
, cause_key text not null unique
, proposed_title text not null
, candidate_units text[] not null default '{}'
, queries text[] not null default '{}'
, status text not null default 'open' check (status in ('open', 'accepted', 'rejected'))
, created_at timestamptz not null default now()
, decided_at timestamptz
, decided_by text
);

create table nao.health_report
( report_day date not null
, lane text not null
, window_days int not null check (window_days > 0)
, figures jsonb not null
, markdown text not null
, html_path text
, built_at timestamptz not null default now()
, primary key (report_day, lane, window_days)
);

create table nao.pipeline_run
( run_id text primary key
, kind text not null
, started_at timestamptz not null default now()
, finished_at timestamptz
, status text not null default 'running' check (status in ('running', 'succeeded', 'failed'))
, counters jsonb not null default '{}'
);
comment on table nao.pipeline_run is 'One row per nightly or backfill: what it did, in numbers. Read by doctor and by the freshness report.';
