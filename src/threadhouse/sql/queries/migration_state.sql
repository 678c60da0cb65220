-- What of the bookkeeping exists. "create schema if not exists" needs the right to create even when the schema is there.
select to_regnamespace('cong') is not null as has_schema
     , to_regclass('cong.schema_migration') is not null as has_migrations
     , to_regclass('cong.schema_view_set') is not null as has_view_sets
