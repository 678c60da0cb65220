-- What was once observed of a thread and was observed again since; an open one stays.
select h.ctid
from nao.health_signal h
where h.observed_at < %(before)s and h.status <> 'open'
  and exists
  ( select from nao.health_signal n
    where n.thread_id = h.thread_id and n.kind = h.kind and n.lane is not distinct from h.lane
      and n.logical_unit_id is not distinct from h.logical_unit_id and n.observed_at > h.observed_at )
