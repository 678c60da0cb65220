-- Generations of all vectors: one is in force, others stand beside it, being built or kept to go back to.

create table nao.vector_generation
( space_id text not null
, generation int not null check (generation >= 1)
, state text not null check (state in ('building', 'built', 'in_force', 'previous', 'dropped'))
, embedding_model text
, embedding_path text
, created_at timestamptz not null default clock_timestamp()
, changed_at timestamptz not null default clock_timestamp()
, primary key (space_id, generation)
, check (embedding_model is null or embedding_path is null)
);
create unique index vector_generation_in_force_idx on nao.vector_generation ((true)) where state = 'in_force';
comment on table nao.vector_generation is
  'What is known of each generation of the vector collections. Which one is in force is decided by the aliases; this follows them.';
comment on column nao.vector_generation.embedding_model is
  'How its model is opened: EMBEDDING_MODEL, or EMBEDDING_PATH in the column beside it; the offline model when both are null.';

-- Packs are built for a space before its vectors are in force, and stay when they no longer are. What a pack shows does not depend on
-- the space, so the same id may be there once for each.
alter table nao.thread_context_pack_cache drop constraint thread_context_pack_cache_pkey;
alter table nao.thread_context_pack_cache add primary key (thread_id, lane, space_id);
alter table nao.thread_context_pack_cache drop constraint thread_context_pack_cache_pack_id_key;
alter table nao.thread_context_pack_cache add unique (pack_id, space_id);
alter table nao.thread_pack_state drop constraint thread_pack_state_pkey;
alter table nao.thread_pack_state add primary key (thread_id, space_id);
