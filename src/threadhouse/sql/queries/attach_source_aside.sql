alter schema source rename to threadhouse_kept_source
