select pg_advisory_unlock(hashtextextended(%(name)s, 0))
