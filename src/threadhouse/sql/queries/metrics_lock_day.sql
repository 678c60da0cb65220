-- Two runs that count one day take turns; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtext('nao.retrieval_metric_aggregate'), %(day)s::date - date '2000-01-01')
