-- Recent questions asked again before readers are switched over, and what a proposal of a thread remembers of its questions.

create table nao.replay_run
( replay_id uuid primary key
, stage text not null check (stage in ('switch', 'packs'))
, state_digest text not null
, verdict text not null check (verdict in ('passed', 'stopped', 'accepted'))
, is_baseline boolean not null default false
, questions int not null check (questions >= 0)
, changed int not null check (changed between 0 and questions)
, at_risk int not null check (at_risk between 0 and questions)
, lost int not null check (lost between 0 and at_risk)
, loss_share_limit double precision not null check (loss_share_limit between 0 and 1)
, seconds double precision not null
, replayed_at timestamptz not null default clock_timestamp()
, check (not is_baseline or verdict <> 'stopped')
);
create index replay_run_replayed_idx on nao.replay_run (replayed_at desc);
comment on table nao.replay_run is 'One row a replay: how many recent questions were asked again, and how many lost the answer they had.';
comment on column nao.replay_run.stage is
  'switch: inside a transaction that was thrown away, before readers got new vectors; packs: what readers have, before packs are stored.';
comment on column nao.replay_run.is_baseline is 'Its answers are what later ones are held against.';

create table nao.replay_result
( replay_id uuid not null references nao.replay_run on delete cascade
, question_key text not null
, lane text not null check (lane in ('customer', 'partner', 'employee', 'ai_agent'))
, query_id uuid not null
, old_path text check (old_path in ('thread', 'candidates', 'fallback', 'none'))
, old_thread_id text
, old_units text[] not null default '{}'
, old_top_unit text
, new_path text not null check (new_path in ('thread', 'candidates', 'fallback', 'none'))
, new_thread_id text
, new_units text[] not null default '{}'
, new_top_unit text
, changes text[] not null default '{}'
, loss text
, primary key (replay_id, question_key)
);
create index replay_result_question_idx on nao.replay_result (question_key);
comment on column nao.replay_result.query_id is
  'The query whose text was asked. The text itself is personal and stays with that query''s event.';
comment on column nao.replay_result.old_path is 'Null: asked for the first time, there is nothing to hold it against.';
comment on column nao.replay_result.old_units is 'As address@revision, in the order of the pack.';

alter table nao.thread_intake_proposal
  add column language text not null default ''
, add column question_keys text[] not null default '{}'
, add column query_ids uuid[] not null default '{}'
, add column question_count int not null default 0 check (question_count >= 0)
, add column session_count int not null default 0 check (session_count >= 0)
, add column cohesion double precision check (cohesion between -1 and 1)
, add column questions_at_decision int
, add column first_seen_at timestamptz
, add column last_seen_at timestamptz
, add column updated_at timestamptz not null default now()
, add column decision_reason text
, add column thread_id text;
comment on column nao.thread_intake_proposal.cause_key is 'Key of the question that was in the middle of the cluster when it was first met.';
comment on column nao.thread_intake_proposal.queries is
  'Texts of its queries that their events still hold; what is deleted there is gone from here after the next night.';
comment on column nao.thread_intake_proposal.thread_id is 'The draft thread that accepting it made.';

create table nao.intake_refresh
( is_only boolean primary key default true check (is_only)
, questions_digest text not null
, refreshed_at timestamptz not null default clock_timestamp()
);
comment on table nao.intake_refresh is 'What proposals were last made from; one row. The same questions are not grouped again.';

create table cong.intake_policy
( policy_version int not null check (policy_version >= 1)
, space_id text not null
, merge_similarity double precision not null check (merge_similarity between -1 and 1)
, min_questions int not null check (min_questions >= 2)
, min_sessions int not null check (min_sessions >= 1)
, recurrence_factor double precision not null check (recurrence_factor >= 1)
, fitted_on jsonb not null default '{}'
, activated_at timestamptz not null default now()
, activated_by text not null default current_user
, primary key (policy_version, space_id)
);
comment on table cong.intake_policy is
  'When unanswered questions become a proposal of a thread. A change is a new version with all its rows; the highest version is in force.';
comment on column cong.intake_policy.merge_similarity is
  'Mean cosine, between the questions of two groups, from which they are one group. Cosines of two models do not compare.';
comment on column cong.intake_policy.recurrence_factor is
  'A rejected proposal is open again when it was asked so many times as often as when it was rejected.';

-- Clusters of three questions or more, from `python -m bench.question_clusters`: at .80 in the offline model's space, 99.9 % of the
-- questions in a cluster are of one article (xquad, both languages together), 83 % of one law (headings of the Vietnamese legal code,
-- many of which every law has). The first row serves every other space: at .90 hardly anything but the same question in other words.
insert into cong.intake_policy (policy_version, space_id, merge_similarity, min_questions, min_sessions, recurrence_factor, fitted_on, activated_by)
values
( 1, '', 0.90, 5, 3, 2, '{}', 'shipped default' ),
( 1, 'me5-small-q4-384-3fbd7fa203', 0.80, 5, 3, 2
, '{"xquad_purity": 0.999, "xquad_covered": 0.30, "phapdien_purity": 0.834, "phapdien_covered": 0.81}', 'shipped default' );
