insert into cong.schema_migration (name, sha256, body) values (%(name)s, %(sha256)s, %(body)s)
