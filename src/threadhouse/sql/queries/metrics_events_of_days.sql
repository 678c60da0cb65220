-- Events whose query, or who themselves when it is unknown, fall into [first, last): CSV, instants as microseconds.
copy
( select e.event_id
       , e.ingest_seq
       , e.event_version
       , (extract(epoch from e.occurred_at) * 1000000)::bigint
       , (extract(epoch from e.ingested_at) * 1000000)::bigint
       , (extract(epoch from coalesce(q.asked_at, e.occurred_at)) * 1000000)::bigint
       , e.type
       , e.query_id
       , e.session_id
       , e.lane
       , e.thread_id
       , e.resolution_path
       , e.reason
       , e.latency_ms
       , case when jsonb_typeof(e.details -> 'sufficient') = 'boolean' then (e.details -> 'sufficient')::boolean end
       , e.details
  from nao.retrieval_metric_event e
  left join lateral
  ( select min(s.occurred_at) as asked_at
    from nao.retrieval_metric_event s
    where s.query_id = e.query_id and s.type = 'query' and s.occurred_at >= %(earliest)s and s.occurred_at < %(latest)s
  ) q on true
  where e.event_id in
        ( select event_id from nao.retrieval_metric_event where occurred_at >= %(first)s and occurred_at < %(last)s
          union
          select f.event_id
          from nao.retrieval_metric_event s
          join nao.retrieval_metric_event f using (query_id)
          where s.type = 'query' and s.occurred_at >= %(first)s and s.occurred_at < %(last)s
        )
    and e.occurred_at >= %(earliest)s and e.occurred_at < %(latest)s
    and coalesce(q.asked_at, e.occurred_at) >= %(first)s and coalesce(q.asked_at, e.occurred_at) < %(last)s
  order by e.ingest_seq
) to stdout (format csv)
