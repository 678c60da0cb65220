update {table} set {column} = pg_current_xact_id() where {column} > pg_current_xact_id()
