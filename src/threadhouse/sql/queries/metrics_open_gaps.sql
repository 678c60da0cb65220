-- Operators (no lane) see every gap; a lane sees its own, and never that something leaked elsewhere.
select kind, count(*) as signals, sum(occurrence_count) as occurrences, max(last_seen_at) as last_seen_at
from nao.search_gap_signal
where status <> 'fixed'
  and (%(lane)s::text is null or (lane = %(lane)s and kind <> 'wrong_audience_result'))
group by kind
order by kind
