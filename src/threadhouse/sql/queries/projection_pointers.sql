-- Null selects all.
select owner_id, version_key, chunk_count, content_digest, payload_digest
from nao.vector_projection
where physical = %(physical)s and (%(owner_ids)s::text[] is null or owner_id = any (%(owner_ids)s))
