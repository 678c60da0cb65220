-- What has arrived for a day that retention has closed, and how much of it there is.
select (d.event).event_id::text, (d.event).type, (d.event).occurred_at::text, count(*) over ()
from nao.events_of_day(%(first)s, %(next)s, %(earliest)s, %(latest)s) d
order by (d.event).ingest_seq
limit %(limit)s
