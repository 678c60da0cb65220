-- The last local day on which each lane got a pack of each thread: only then is there a row of its noise, known or not.
select thread_id, lane, max(local_day) as last_use
from nao.retrieval_metric_aggregate
where thread_id <> '' and lane <> 'overall' and metric = 'noisy_context_rate'
group by thread_id, lane
