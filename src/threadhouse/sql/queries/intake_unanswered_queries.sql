-- The newest queries that no thread answered, or of which a reader said that a thread is missing, and whose text is kept.
select e.query_id, e.lane, e.query_text, e.session_id, e.occurred_at
from nao.retrieval_metric_event e
where e.type = 'query' and e.query_text is not null and e.lane is not null and e.query_id is not null and e.occurred_at >= %(since)s
  and ( e.reason = 'missing_thread' or e.resolution_path = 'none'
        or exists ( select from nao.retrieval_metric_event c where c.query_id = e.query_id and c.type = 'missing_thread_confirmed' ) )
order by e.occurred_at desc, e.event_id
limit %(limit)s
