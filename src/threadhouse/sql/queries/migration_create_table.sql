create table if not exists cong.schema_migration
( name text primary key
, sha256 text not null
, body text not null
, applied_at timestamptz not null default now()
, applied_by text not null default current_user
)
