insert into nao.retrieval_metric_day (local_day, source_digest, metrics_version)
values (%(day)s, %(source_digest)s, %(metrics_version)s)
on conflict (local_day) do update
set source_digest = excluded.source_digest, metrics_version = excluded.metrics_version, computed_at = now()
where (retrieval_metric_day.source_digest, retrieval_metric_day.metrics_version)
   is distinct from (excluded.source_digest, excluded.metrics_version)
