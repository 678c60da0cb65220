-- The query that feedback is about, as its own lane knows it, with the threads that its answer pointed to.
select q.query_id, q.session_id, q.lane, q.thread_id, q.resolution_path, q.query_text
     , nullif(q.details ->> 'pack_id', '')::uuid as pack_id
     , array(
         select e.thread_id from nao.retrieval_metric_event e
         where e.query_id = q.query_id and e.lane = q.lane and e.type in ('query', 'suggestion') and e.thread_id is not null
       ) as pointed_to
from nao.retrieval_metric_event q
where q.query_id = %(query_id)s and q.type = 'query' and q.lane = %(lane)s
