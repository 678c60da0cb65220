alter schema source rename to threadhouse_fresh
