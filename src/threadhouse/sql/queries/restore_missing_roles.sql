select wanted.name from unnest(%(names)s::text[]) as wanted (name) where not exists (select from pg_roles r where r.rolname = wanted.name)
