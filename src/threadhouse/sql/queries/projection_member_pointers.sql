-- What a collection holds of the units of some threads.
select owner_id, version_key, chunk_count, content_digest, payload_digest
from nao.vector_projection
where physical = %(physical)s
  and owner_id in (select logical_unit_id from source.thread_membership where thread_id = any (%(thread_ids)s))
