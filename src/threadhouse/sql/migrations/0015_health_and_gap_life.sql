-- Health by lane with thresholds as versioned rows, the life of a gap signal with who and why, and the items that it is routed to.

alter table nao.health_signal
  add column lane text check (lane in ('customer', 'partner', 'employee', 'ai_agent'))
, add column observer text not null default 'operator' check (observer in ('operator', 'threadhouse'))
, add column gap_signal_id uuid references nao.search_gap_signal on delete cascade
, alter column thread_id drop not null
, drop constraint health_signal_kind_check
, add constraint health_signal_kind_check check (kind in ('thread_health', 'wrong_link', 'gap'))
, add constraint health_signal_gap_check check ((kind = 'gap') = (gap_signal_id is not null) and (kind = 'gap') = (thread_id is null));
create unique index health_signal_gap_idx on nao.health_signal (gap_signal_id) where kind = 'gap';
comment on column nao.health_signal.lane is 'Whose sight of the thread the check was made of. Null: for every lane; so are all statements of operators.';
comment on column nao.health_signal.observer is 'threadhouse: measured. operator: stated by somebody, and loaded.';
comment on column nao.health_signal.thread_id is
  'Null for a gap: no pack shows gap signals, so that they need not be built again because of one.';

create table cong.signal_policy
( policy_version int not null check (policy_version >= 1)
, space_id text not null
, window_days int not null check (window_days between 1 and 366)
, statement_days int not null check (statement_days between 0 and 3660)
, conditions jsonb not null
, gaps jsonb not null
, activated_at timestamptz not null default now()
, activated_by text not null default current_user
, primary key (policy_version, space_id)
);
comment on table cong.signal_policy is
  'Thresholds of thread health and of gap signals. A change is a new version with all its rows; the highest activated version is in force.';
comment on column cong.signal_policy.space_id is
  'The vector space that the cohesion was measured in. Empty: every space without a row of its own; cohesion is not judged there.';
comment on column cong.signal_policy.window_days is 'Local days over which rates are summed, today included.';
comment on column cong.signal_policy.statement_days is 'How long an operator''s statement about a thread''s health holds against what is measured.';

insert into cong.signal_policy (policy_version, space_id, window_days, statement_days, conditions, gaps, activated_by)
select 1, space_id, 28, 28
     , '{ "few_units": {"status": "weak", "figure": "unit_count", "enter": 2, "leave": 3}
        , "low_confidence": {"status": "weak", "figure": "mean_confidence", "enter": 0.5, "leave": 0.6}
        , "noisy_packs": {"status": "noisy_retrieval", "figure": "noisy_context_rate_low", "enter": 0.25, "leave": 0.1, "min_observations": 10}
        , "wrong_answers": {"status": "overbroad", "figure": "wrong_thread_rate_low", "enter": 0.25, "leave": 0.1, "min_observations": 10}
        , "inactive": {"status": "stale", "figure": "idle_days", "enter": 365, "leave": 300}
        , "searched_outside": {"status": "too_narrow", "figure": "agent_extra_search_rate_low", "enter": 0.3, "leave": 0.15, "min_observations": 10}
        , "insufficient": {"status": "too_narrow", "figure": "insufficient_context_rate_low", "enter": 0.5, "leave": 0.3, "min_observations": 10}
        , "incomplete_chain": {"status": "too_narrow", "figure": "coverage", "enter": 0.3, "leave": 0.5} }'::jsonb || of_space
     , '{"normal_at": 3, "high_at": 10, "capability_at": 5}'
     , 'shipped default'
from (values
  ( '', '{}'::jsonb )
, ( 'me5-small-q4-384-3fbd7fa203'
  , '{"scattered": {"status": "overbroad", "figure": "cohesion", "enter": 0.8, "leave": 0.82, "min_observations": 5}}'::jsonb )
) as v (space_id, of_space);

alter table nao.search_gap_signal
  add column opening int not null default 1 check (opening >= 1)
, add column changed_at timestamptz not null default now()
, add column changed_by text not null default 'threadhouse'
, add column change_reason text not null default '';
comment on column nao.search_gap_signal.opening is 'How often the cause was opened: 1, and one more each time that it came back after it was fixed.';
comment on column nao.search_gap_signal.changed_by is 'Who put the signal into its status; threadhouse when the product did.';

create table nao.gap_signal_change
( change_id bigint generated always as identity primary key
, signal_id uuid not null references nao.search_gap_signal on delete cascade
, status text not null check (status in ('open', 'acknowledged', 'fixed', 'reopened'))
, changed_at timestamptz not null
, changed_by text not null
, reason text not null
);
create index gap_signal_change_signal_idx on nao.gap_signal_change (signal_id, change_id);
create index gap_signal_change_at_idx on nao.gap_signal_change (changed_at);
comment on table nao.gap_signal_change is 'Every status that a gap signal was in, with who and why. Written by triggers, so that no writer can forget it.';

insert into nao.gap_signal_change (signal_id, status, changed_at, changed_by, reason)
select signal_id, 'open', first_seen_at, 'threadhouse', '' from nao.search_gap_signal where severity <> 'security'
union all
select signal_id, status, last_seen_at, 'threadhouse', '' from nao.search_gap_signal where severity <> 'security' and status <> 'open';

-- Who writes a status without saying who and why is the product itself, on meeting the cause again.
create function nao.stamp_gap_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  new.changed_at := clock_timestamp();
  if (new.changed_by, new.change_reason) is not distinct from (old.changed_by, old.change_reason) then
    new.changed_by := 'threadhouse';
    new.change_reason := case new.status when 'reopened' then 'met again' else '' end;
  end if;
  if old.status = 'fixed' then
    new.opening := old.opening + 1;
  end if;
  return new;
end
$fn$;
create trigger stamp_change before update of status on nao.search_gap_signal
  for each row when (old.status is distinct from new.status) execute function nao.stamp_gap_change();

-- With its owner's rights: a reader's question opens gaps, and no reader may write history.
create function nao.keep_gap_history() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $fn$
begin
  insert into nao.gap_signal_change (signal_id, status, changed_at, changed_by, reason)
  values (new.signal_id, new.status, new.changed_at, new.changed_by, new.change_reason);
  return null;
end
$fn$;
create trigger keep_history_insert after insert on nao.search_gap_signal
  for each row when (new.severity <> 'security') execute function nao.keep_gap_history();
create trigger keep_history_update after update of status on nao.search_gap_signal
  for each row when (new.severity <> 'security' and old.status is distinct from new.status) execute function nao.keep_gap_history();

-- One item for a cause, wherever it is routed; governance gets one for each opening, because its closed items stay closed.
create unique index decision_backlog_item_signal_idx on nao.decision_backlog_item (signal_id);

create table nao.capability_intake_item
( item_id uuid primary key
, signal_id uuid not null unique references nao.search_gap_signal on delete cascade
, capability text not null
, title text not null
, status text not null default 'open' check (status in ('open', 'acknowledged', 'done', 'rejected'))
, evidence jsonb not null default '{}'
, created_at timestamptz not null default now()
, updated_at timestamptz not null default now()
);
comment on table nao.capability_intake_item is 'D4: gaps that no unit or thread can close, because retrieval itself lacks something.';
