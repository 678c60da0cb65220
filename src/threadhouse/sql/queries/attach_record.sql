insert into nao.attached_file (file_name, sha256, body, wants_triggers)
values (%(file_name)s, %(sha256)s, %(body)s, %(wants_triggers)s)
