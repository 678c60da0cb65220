-- Which collection answers for a document whose units a person asked for. Units of a document that is on the legacy side are there and
-- are not shown, so that changing sides is one update, in the transaction that moves the pointers of the vectors.

create table nao.document_side
( document_id text primary key references public.production_document on delete cascade on update cascade
, side text not null check (side in ('legacy', 'units'))
, wanted text not null check (wanted in ('legacy', 'units'))
, made jsonb not null
, body_hash text not null
, changed_by text not null
, changed_at timestamptz not null default clock_timestamp()
, switched_at timestamptz
);
comment on table nao.document_side is
  'Documents that were moved by hand; of all others, those with units are on the side of units.';
comment on column nao.document_side.wanted is 'Where a person wants it; the next publish that can moves it there.';
comment on column nao.document_side.made is 'The rows of its units as they were made, by id; what differs since was done by somebody else.';
comment on column nao.document_side.body_hash is 'content_hash of the document when its units were last made or put away.';

create table nao.document_side_change
( change_id bigint generated always as identity primary key
, document_id text not null
, wanted text not null
, unit_count int not null
, is_forced boolean not null default false
, changed_by text not null
, changed_at timestamptz not null default clock_timestamp()
);
create index document_side_change_document_idx on nao.document_side_change (document_id, change_id);
comment on table nao.document_side_change is 'Who asked when for which side; never changed, and kept when the document is gone.';
