-- What an extract cannot be faster than.
copy (select * from nao.retrieval_metric_event where occurred_at >= {first} and occurred_at < {last}) to stdout (format binary)
