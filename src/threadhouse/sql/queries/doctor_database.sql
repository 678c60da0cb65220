select current_setting('server_version') as version
     , pg_database_size(current_database()) as size_bytes
     , to_regclass('nao.vector_projection') is not null as is_migrated
