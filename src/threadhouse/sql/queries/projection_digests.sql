select content_digest from nao.vector_projection where collection = %(collection)s and space_id = %(space_id)s
