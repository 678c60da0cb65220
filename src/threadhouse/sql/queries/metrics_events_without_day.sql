-- Events at impossible instants (infinity, milliseconds read as seconds): no local day could hold them.
select event_id::text, occurred_at::text
from nao.retrieval_metric_event
where occurred_at < %(earliest)s or occurred_at >= %(latest)s
