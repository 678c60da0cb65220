insert into nao.document_side_change (document_id, wanted, unit_count, is_forced, changed_by)
values (%(document_id)s, %(wanted)s, %(unit_count)s, %(is_forced)s, %(who)s)
