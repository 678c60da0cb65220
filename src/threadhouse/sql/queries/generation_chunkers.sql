-- How the owners of some collections were cut.
select distinct collection, chunker_version
from nao.vector_projection
where physical = any (%(physicals)s) and collection <> 'thread_centroids'
order by collection, chunker_version
