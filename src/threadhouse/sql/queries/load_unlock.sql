select pg_advisory_unlock(hashtext('threadhouse.load'))
