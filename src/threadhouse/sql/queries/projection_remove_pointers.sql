delete from nao.vector_projection where physical = %(physical)s and owner_id = any (%(owner_ids)s)
