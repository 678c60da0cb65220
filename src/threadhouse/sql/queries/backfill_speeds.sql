-- What builders of the last weeks took: seconds for a vector written without embedding, seconds for a pack.
select
  ( select sum(seconds) / nullif(sum(vector_writes), 0) from nao.build_step
    where texts_embedded = 0 and vector_writes > 0 and finished_at > clock_timestamp() - interval '30 days' )
, (select avg(build_ms) / 1000 from nao.thread_context_pack_cache)
