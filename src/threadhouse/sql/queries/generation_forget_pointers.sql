delete from nao.vector_projection where physical = any (%(physicals)s)
