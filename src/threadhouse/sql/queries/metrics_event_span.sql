-- First and last plausible instant: the stretch of time that local days are laid out over.
select min(occurred_at), max(occurred_at)
from nao.retrieval_metric_event
where occurred_at >= %(earliest)s and occurred_at < %(latest)s
