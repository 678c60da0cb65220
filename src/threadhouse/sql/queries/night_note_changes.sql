-- Following changes is many small runs: one row an hour, or the log of what they cost would outgrow what they do.
insert into nao.build_step as s (step, finished_at, seconds, texts_embedded, cache_hits, vector_writes)
values ('changes:' || %(step)s, date_trunc('hour', clock_timestamp()), %(seconds)s, %(texts_embedded)s, %(cache_hits)s, %(vector_writes)s)
on conflict (step, finished_at) do update set
  seconds = s.seconds + excluded.seconds
, texts_embedded = s.texts_embedded + excluded.texts_embedded
, cache_hits = s.cache_hits + excluded.cache_hits
, vector_writes = s.vector_writes + excluded.vector_writes
