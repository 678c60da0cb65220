select name, sha256, applied_at from cong.schema_migration order by name
