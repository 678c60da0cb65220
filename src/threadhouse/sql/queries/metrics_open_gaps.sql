-- Operators (no lane) see every gap, a lane its own. A leak is no gap: it is a security event, which no figure of quality counts.
select kind, count(*) as signals, sum(occurrence_count) as occurrences, max(last_seen_at) as last_seen_at
from nao.search_gap_signal
where status <> 'fixed' and severity <> 'security' and kind <> 'wrong_audience_result'
  and (%(lane)s::text is null or lane = %(lane)s)
group by kind
order by kind
