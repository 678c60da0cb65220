select owner_id, version_key, chunk_count, content_digest, payload_digest
from nao.vector_projection
where physical = %(physical)s
