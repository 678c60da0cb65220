-- Openings and closings of gaps by local day and kind; a cause that came back was opened once more. Null lane: of every lane and of none.
-- Security events are none.
select (c.changed_at at time zone %(zone)s)::date as local_day, s.kind
     , count(*) filter (where c.status in ('open', 'reopened')) as opened
     , count(*) filter (where c.status = 'fixed') as closed
from nao.gap_signal_change c
join nao.search_gap_signal s using (signal_id)
where c.changed_at >= %(first)s and c.changed_at < %(last)s and c.status in ('open', 'reopened', 'fixed')
  and s.severity <> 'security' and s.kind <> 'wrong_audience_result'
  and (%(lane)s::text is null or s.lane = %(lane)s)
group by local_day, s.kind
order by local_day, s.kind
