-- One load at a time: two would plan versions from the same state. Session level, because a load is many transactions.
select pg_advisory_lock(hashtext('threadhouse.load'))
