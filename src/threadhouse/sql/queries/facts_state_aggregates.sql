-- One key for each counted day. The sum of xmin changes with every row that anybody writes, the count with every row that is deleted.
select local_day::text as part
     , concat_ws(' ', count(a.*), sum(a.xmin::text::bigint), max(d.source_digest), max(d.metrics_version)) as key
from nao.retrieval_metric_day d
full join nao.retrieval_metric_aggregate a using (local_day)
group by local_day
