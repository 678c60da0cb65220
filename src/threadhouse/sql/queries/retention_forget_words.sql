update nao.retrieval_metric_event set query_text = null where query_text is not null and occurred_at < %(before)s
