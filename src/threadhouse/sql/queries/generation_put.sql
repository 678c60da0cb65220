-- A generation as it is now; how its model is opened is kept where nothing is given.
insert into nao.vector_generation as g (space_id, generation, state, embedding_model, embedding_path)
values (%(space_id)s, %(generation)s, %(state)s, %(embedding_model)s, %(embedding_path)s)
on conflict (space_id, generation) do update set
  state = excluded.state
, embedding_model = coalesce(excluded.embedding_model, g.embedding_model)
, embedding_path = coalesce(excluded.embedding_path, g.embedding_path)
, changed_at = clock_timestamp()
where g.state <> excluded.state
