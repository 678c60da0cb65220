-- The newest questions that were asked for a thread and whose text is kept, with what a reader said of each answer last.
select q.query_id, q.lane, q.query_text, q.occurred_at, v.occurred_at as judged_at, v.thread_id as judged_thread
     , coalesce(v.is_sufficient, false) as is_sufficient
from
( select e.query_id, e.lane, e.query_text, e.occurred_at
  from nao.retrieval_metric_event e
  where e.type = 'query' and e.query_text is not null and e.lane is not null and e.query_id is not null
    and e.reason is distinct from 'explicit_raw' and e.occurred_at >= %(since)s
  order by e.occurred_at desc, e.event_id
  limit %(limit)s ) q
left join lateral
( select e.occurred_at, e.thread_id, e.details -> 'sufficient' = 'true'::jsonb as is_sufficient
  from nao.retrieval_metric_event e
  where e.query_id = q.query_id and e.type = 'sufficiency_verdict'
  order by e.occurred_at desc, e.event_id desc
  limit 1 ) v on true
order by q.occurred_at, q.query_id
