-- One row each time the views were run. "definitions" is what the server made of them, so that a view that its owner redefined
-- can be told from one of ours. Definitions of another server version are written differently and cannot be compared.
create table if not exists cong.schema_view_set
( view_set_id bigint generated always as identity primary key
, sha256 text not null
, definitions jsonb not null
, server_major integer not null
, applied_at timestamptz not null default now()
)
