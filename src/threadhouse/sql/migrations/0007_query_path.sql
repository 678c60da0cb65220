-- What the query path keeps besides events: which packs left, so that citations can be held against them.

create table nao.delivered_pack
( pack_id uuid primary key
, lane text not null check (lane in ('customer', 'partner', 'employee', 'ai_agent'))
, thread_id text
, source_revisions jsonb not null
, first_delivered_at timestamptz not null default now()
);
comment on table nao.delivered_pack is
  'One row for each pack that ever left, by its content. Stored packs are replaced; a citation of last week must still find its own.';
comment on column nao.delivered_pack.thread_id is 'Null for an ad-hoc pack.';
comment on column nao.delivered_pack.source_revisions is 'Revision by canonical address, as it was delivered.';

-- The last pack of a session, for the search that follows it.
create index retrieval_metric_event_session_idx on nao.retrieval_metric_event (session_id, occurred_at desc)
  where session_id is not null and type = 'pack_delivered';
create index consumer_contract_log_occurred_idx on nao.consumer_contract_log (occurred_at);
