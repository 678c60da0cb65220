select local_day, source_digest, metrics_version from nao.retrieval_metric_day
