select text_hash, vector
from nao.embedding_cache
where space_id = %(space_id)s and role = %(role)s and text_hash = any (%(hashes)s)
