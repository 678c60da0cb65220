select source_digest, metrics_version from nao.retrieval_metric_day where local_day = %(day)s
