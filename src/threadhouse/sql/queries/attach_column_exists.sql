select exists (select from pg_attribute where attrelid = %(oid)s and attname = %(column)s and attnum > 0 and not attisdropped)
