delete from nao.retrieval_metric_event known
using nao.events_of_day(%(first)s, %(next)s, %(earliest)s, %(latest)s) d
where known.event_id = (d.event).event_id
