-- Days that may hold something else since a transaction: those of events that were written, edited or deleted, and of all events that share
-- a query with them, because an event lies in the day of its query. More days than have changed, never fewer.
with changed as materialized
( select query_id, occurred_at from nao.retrieval_metric_event where ingest_xid >= %(since)s::xid8
  union all
  select query_id, occurred_at from nao.retrieval_event_edit where edit_xid >= %(since)s::xid8 )
, touched as
( select occurred_at from changed
  union all
  select e.occurred_at
  from (select distinct query_id from changed where query_id is not null) c
  join nao.retrieval_metric_event e using (query_id) )
select distinct width_bucket(occurred_at, %(starts)s::timestamptz[])
from touched
where occurred_at >= %(earliest)s and occurred_at < %(latest)s
order by 1
