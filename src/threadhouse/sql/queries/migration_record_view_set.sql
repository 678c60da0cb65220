insert into cong.schema_view_set (sha256, definitions, server_major) values (%(sha256)s, %(definitions)s, %(server_major)s)
