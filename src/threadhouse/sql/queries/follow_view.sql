select nao.follow_source(%(view_name)s, %(touched)s::text[])
