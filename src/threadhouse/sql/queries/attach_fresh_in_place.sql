alter schema threadhouse_fresh rename to attached
