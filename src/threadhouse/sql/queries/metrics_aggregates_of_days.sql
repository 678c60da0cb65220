select local_day, lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high, requires_instrumentation, target
from nao.retrieval_metric_aggregate
where local_day between %(first)s and %(last)s
  and (%(lane)s::text is null or lane = %(lane)s)
order by local_day, lane, thread_id, metric
