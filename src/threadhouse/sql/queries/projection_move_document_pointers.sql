-- Only versions that are still the live ones, of documents that no unit took over meanwhile: the rest is left for the next run.
insert into nao.vector_projection as p
( physical, owner_id, collection, version_key, chunk_count, space_id, chunker_version, content_digest, payload_digest )
select %(physical)s, n.owner_id, %(collection)s, n.version_key, n.chunk_count, %(space_id)s, %(chunker_version)s, n.content_digest, n.payload_digest
from unnest(%(owner_ids)s::text[], %(version_keys)s::text[], %(chunk_counts)s::int[], %(content_digests)s::text[], %(payload_digests)s::text[])
  as n (owner_id, version_key, chunk_count, content_digest, payload_digest)
join source.production_document s on s.document_id = n.owner_id and s.document_id || '@' || s.revision = n.version_key and not s.has_units
on conflict (physical, owner_id) do update set
  version_key = excluded.version_key
, chunk_count = excluded.chunk_count
, space_id = excluded.space_id
, chunker_version = excluded.chunker_version
, content_digest = excluded.content_digest
, payload_digest = excluded.payload_digest
, published_at = clock_timestamp()
returning p.owner_id
