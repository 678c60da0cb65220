-- The key under which each part of a suite was last judged and found sound.
select distinct on (part.name) part.name, part.key
from nao.data_validation v
cross join lateral jsonb_each_text(v.results -> 'parts') as part (name, key)
where v.suite = %(suite)s and v.suite_version = %(suite_version)s and v.failed = 0
order by part.name, v.validated_at desc
