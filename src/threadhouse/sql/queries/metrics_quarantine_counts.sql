-- Sources may carry a scope after a slash (a day, a file): the report counts by what stands before it.
select split_part(source, '/', 1) as source, reason, count(*) as items, max(last_seen_at) as last_seen_at
from nao.quarantined_item
where resolved_at is null
group by 1, 2
order by items desc, 1, 2
limit 20
