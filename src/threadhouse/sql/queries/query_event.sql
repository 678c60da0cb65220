-- The query that feedback is about, as its own lane knows it.
select query_id, session_id, lane, thread_id, resolution_path, query_text
from nao.retrieval_metric_event
where query_id = %(query_id)s and type = 'query' and lane = %(lane)s
