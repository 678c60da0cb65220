-- A unit that leaves a document, or is deleted, may hand the document back to the legacy collection. Only its old points say which
-- document that was, and they change before the document is published again.

create table nao.projection_owed_document
( document_id text primary key
, noted_at timestamptz not null default clock_timestamp()
);
comment on table nao.projection_owed_document is
  'Documents that a publish which was interrupted still has to look at; every later publish does.';
