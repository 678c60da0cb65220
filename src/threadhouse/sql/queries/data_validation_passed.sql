-- Newest first: the key under which each part of a suite was last judged and found sound.
select v.results -> 'parts'
from nao.data_validation v
where v.suite = %(suite)s and v.suite_version = %(suite_version)s and v.failed = 0
order by v.validated_at desc
