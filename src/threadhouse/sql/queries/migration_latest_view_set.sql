select sha256, definitions, server_major from cong.schema_view_set order by view_set_id desc limit 1
