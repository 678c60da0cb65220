select relname from pg_class
where relnamespace = to_regnamespace('public') and relkind in ('r', 'p', 'v', 'm', 'f') and relname = any (%(names)s)
