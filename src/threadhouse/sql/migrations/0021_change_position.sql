-- How far the change log has been followed, and how long changes waited.
-- A position is a snapshot, not a number: ids and transactions commit out of order, and a row of a transaction that was still open
-- when others were read is none of those that its snapshot sees. So nothing is passed over, and no open transaction holds others up.

create index change_log_transaction_idx on nao.change_log (transaction_id);

create table nao.change_consumer
( consumer text primary key
, position pg_snapshot not null
, cluster text not null
, moved_at timestamptz not null default clock_timestamp()
);
comment on column nao.change_consumer.position is
  'A change was followed when pg_visible_in_snapshot(transaction_id, position).';
comment on column nao.change_consumer.cluster is
  'System identifier of the server whose transactions the position counts; on another one (a restored dump) it means nothing.';

create table nao.change_reconcile
( run_id text primary key
, position pg_snapshot not null
, cluster text not null
, began_at timestamptz not null default clock_timestamp()
);
comment on table nao.change_reconcile is
  'What a full reconcile that is under way will have covered when it has ended well; then the consumer moves there.';

create table nao.change_batch
( batch_id bigint generated always as identity primary key
, consumer text not null
, followed_by text not null
, changes bigint not null check (changes >= 0)
, read_at timestamptz not null
, access_at timestamptz not null check (access_at >= read_at)
, searchable_at timestamptz not null check (searchable_at >= access_at)
, packs_at timestamptz not null
);
create index change_batch_searchable_idx on nao.change_batch (searchable_at);

create table nao.change_wait
( batch_id bigint not null references nao.change_batch on delete cascade
, lane text not null check (lane in ('access', 'content', 'thread'))
, changed_at timestamptz not null
, changes bigint not null check (changes > 0)
, primary key (batch_id, lane, changed_at)
);
comment on table nao.change_wait is
  'The changes of a batch by lane and tenth of a second. They waited from changed_at (of the statement; its commit came later) to access_at or searchable_at of the batch.';
