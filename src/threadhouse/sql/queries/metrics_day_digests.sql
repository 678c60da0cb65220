-- What each local day holds, in three numbers: any insert, edit, delete or move of an event changes one of them.
-- Days come as their first instants, so no time zone table is consulted here. The sum makes order irrelevant.
with asked as materialized
( select query_id, min(occurred_at) as asked_at
  from nao.retrieval_metric_event
  where type = 'query' and query_id is not null and occurred_at >= %(earliest)s and occurred_at < %(latest)s
  group by query_id
)
select width_bucket(coalesce(a.asked_at, e.occurred_at), %(starts)s::timestamptz[]) as day_number
     , count(*) as event_count
     , max(e.ingest_seq) as max_ingest_seq
     , sum(hash_record_extended(row
         ( e.event_id, e.event_version, e.occurred_at, e.ingested_at, e.type, e.query_id, e.session_id, e.lane
         , e.thread_id, e.resolution_path, e.reason, e.latency_ms, e.details, coalesce(a.asked_at, e.occurred_at)
         ), 0))::text as content_hash
from nao.retrieval_metric_event e
left join asked a using (query_id)
where e.occurred_at >= %(earliest)s and e.occurred_at < %(latest)s
group by day_number
order by day_number
