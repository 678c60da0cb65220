select count(*) from ({victims}) v
