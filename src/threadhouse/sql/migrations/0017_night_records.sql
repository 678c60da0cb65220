-- What a night did, kept for the health report: the cost of each step, how long revokes waited, what the audit and the data checks found.

create table nao.build_step
( step text not null
, finished_at timestamptz not null default clock_timestamp()
, seconds double precision not null check (seconds >= 0)
, texts_embedded bigint not null default 0 check (texts_embedded >= 0)
, cache_hits bigint not null default 0 check (cache_hits >= 0)
, vector_writes bigint not null default 0 check (vector_writes >= 0)
, primary key (step, finished_at)
);
create index build_step_finished_idx on nao.build_step (finished_at);
comment on table nao.build_step is 'What each step that builds cost, whoever ran it: the nightly, a repair or a backfill.';

create index change_log_taking_away_idx on nao.change_log (row_key, changed_at)
  where lane = 'access' or op in ('delete', 'truncate');

create table nao.revocation_wait
( collection text not null check (collection in ('production_documents', 'information_units'))
, owner_id text not null
, changed_at timestamptz not null
, vectors_agreed_at timestamptz not null
, packs_agreed_at timestamptz check (packs_agreed_at >= vectors_agreed_at)
, primary key (collection, owner_id, changed_at)
, check (vectors_agreed_at >= changed_at)
);
create index revocation_wait_agreed_idx on nao.revocation_wait (vectors_agreed_at);
create index revocation_wait_open_idx on nao.revocation_wait (vectors_agreed_at) where packs_agreed_at is null;
comment on table nao.revocation_wait is
  'From the change that took a right away to the moments at which vectors and stored packs agreed. No reader waited for either: the last check reads the source.';

create table nao.projection_audit
( collection text not null
, audited_at timestamptz not null default clock_timestamp()
, points bigint not null check (points >= 0)
, owners bigint not null check (owners >= 0)
, findings jsonb not null
, primary key (collection, audited_at)
);

create table nao.data_validation
( suite text not null
, validated_at timestamptz not null default clock_timestamp()
, suite_version text not null
, input_key text not null
, expectations int not null check (expectations > 0)
, failed int not null check (failed between 0 and expectations)
, seconds double precision not null check (seconds >= 0)
, results jsonb not null
, primary key (suite, validated_at)
);
comment on column nao.data_validation.input_key is
  'Names the state that was judged. The same state under the same suite is not judged twice.';
