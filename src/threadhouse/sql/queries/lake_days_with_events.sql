-- Which of the days hold an event by its own time; one look into the index a day. Days come as their first instants, and one more.
select n
from generate_series(1, cardinality(%(starts)s::timestamptz[]) - 1) n
where exists
      ( select from nao.retrieval_metric_event e
        where e.occurred_at >= (%(starts)s::timestamptz[])[n] and e.occurred_at < (%(starts)s::timestamptz[])[n + 1] )
order by n
