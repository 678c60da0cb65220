-- A thread that lost its last event of the day loses its rows; the rest was just written.
delete from nao.retrieval_metric_aggregate known
where known.local_day = %(day)s
  and not exists
      ( select from unnest(%(lane)s::text[], %(thread_id)s::text[], %(metric)s::text[]) as counted (lane, thread_id, metric)
        where (counted.lane, counted.thread_id, counted.metric) = (known.lane, known.thread_id, known.metric)
      )
