insert into nao.build_step (step, seconds, texts_embedded, cache_hits, vector_writes)
values (%(step)s, %(seconds)s, %(texts_embedded)s, %(cache_hits)s, %(vector_writes)s)
