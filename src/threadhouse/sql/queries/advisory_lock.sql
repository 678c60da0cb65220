select pg_try_advisory_lock(hashtextextended(%(name)s, 0))
