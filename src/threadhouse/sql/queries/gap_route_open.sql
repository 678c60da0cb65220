-- Every open gap has one line in D3, one item in D5 and, for each of its openings, one before governance. Ids follow from the gap, so
-- that two runs at once, or a run that was killed, route it once. What a person decided about an item stays until the gap comes back.
with due as materialized
( select s.signal_id, s.kind, s.thread_id, s.lane, s.severity, s.status, s.opening, s.changed_at
       , format('%%s%%s%%s', replace(s.kind, '_', ' '), ' of thread ' || s.thread_id, ' for ' || s.lane) as title
       , jsonb_build_object('kind', s.kind, 'lane', s.lane, 'thread_id', s.thread_id, 'severity', s.severity) as evidence
  from nao.search_gap_signal s
  where s.status <> 'fixed' and s.severity <> 'security' and s.kind <> 'wrong_audience_result'
    and (%(signal_id)s::uuid is null or s.signal_id = %(signal_id)s) )
, in_health as
( insert into nao.health_signal as h (signal_id, kind, status, lane, observer, gap_signal_id, evidence)
  select md5('d3/' || signal_id)::uuid, 'gap', 'open', lane, 'threadhouse', signal_id, evidence from due
  where not exists (select from nao.health_signal k where k.gap_signal_id = due.signal_id and k.kind = 'gap' and k.status = 'open')
  on conflict (signal_id) do update set status = 'open', observed_at = clock_timestamp() where h.status <> 'open'
  returning 1 )
, in_backlog as
( insert into nao.decision_backlog_item as b (item_id, signal_id, title, evidence)
  select md5('d5/' || signal_id)::uuid, signal_id, title, evidence from due
  where not exists
  ( select from nao.decision_backlog_item k
    where k.signal_id = due.signal_id and not (k.status = 'done' and due.opening > 1 and k.updated_at < due.changed_at) )
  on conflict (signal_id) do update set status = 'open', updated_at = clock_timestamp() where b.status = 'done'
  returning 1 )
, in_governance as
( insert into nao.governance_queue_item (item_id, kind, signal_id, title, evidence)
  select md5('d37/' || signal_id || '/' || opening)::uuid, 'governance', signal_id, title, evidence from due
  where not exists
  ( select from nao.governance_queue_item k
    where k.signal_id = due.signal_id and k.kind = 'governance'
      and (k.status = 'open' or k.item_id = md5('d37/' || due.signal_id || '/' || due.opening)::uuid) )
  on conflict (item_id) do nothing
  returning 1 )
select (select count(*) from in_health), (select count(*) from in_backlog), (select count(*) from in_governance)
