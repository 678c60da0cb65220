-- One at a time: whoever attaches, and whoever compares. Held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('threadhouse attached sources', 0))
