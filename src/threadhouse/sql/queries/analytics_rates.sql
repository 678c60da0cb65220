-- Every stored rate, for the analysts' file.
select local_day, lane, thread_id, metric, numerator, denominator, rate, wilson_low, wilson_high, requires_instrumentation, target
     , revision, restated_reason, computed_at
from nao.retrieval_metric_aggregate
