select source, count(*) as open_items, min(first_seen_at) as oldest_at
from nao.quarantined_item
where resolved_at is null
group by source
order by source
