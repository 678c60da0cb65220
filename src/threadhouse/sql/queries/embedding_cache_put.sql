insert into nao.embedding_cache (space_id, role, text_hash, vector)
select %(space_id)s, %(role)s, n.text_hash, n.vector
from unnest(%(hashes)s::text[], %(vectors)s::bytea[]) as n (text_hash, vector)
on conflict do nothing
