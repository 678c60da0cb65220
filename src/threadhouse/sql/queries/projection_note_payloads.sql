update nao.vector_projection p
set payload_digest = n.payload_digest, published_at = clock_timestamp()
from unnest(%(owner_ids)s::text[], %(payload_digests)s::text[]) as n (owner_id, payload_digest)
where p.physical = %(physical)s and p.owner_id = n.owner_id
