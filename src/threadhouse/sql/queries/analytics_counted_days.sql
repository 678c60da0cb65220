select local_day, source_digest, metrics_version, computed_at from nao.retrieval_metric_day
