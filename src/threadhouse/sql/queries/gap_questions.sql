-- What was asked, as far as the events still hold it, and how it was answered then.
select query_id, query_text, resolution_path
from nao.retrieval_metric_event
where query_id = any (%(query_ids)s) and type = 'query'
