select attached_at, attached_by, file_name, sha256, body, wants_triggers from nao.attached_file order by attached_at desc limit 1
