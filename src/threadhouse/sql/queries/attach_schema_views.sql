select c.relname from pg_class c where c.relnamespace = to_regnamespace(%(schema)s) and c.relkind = 'v'
