select collection, count(*) as owners, coalesce(sum(chunk_count), 0) as chunks, max(published_at) as published_at
from nao.vector_projection_in_force
group by collection
order by collection
