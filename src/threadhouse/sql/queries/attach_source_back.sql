alter schema threadhouse_kept_source rename to source
