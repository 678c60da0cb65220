-- Held until the transaction ends, so it also works behind a pooler that shares sessions. The number only has to be ours.
select pg_advisory_xact_lock(7305808868)
