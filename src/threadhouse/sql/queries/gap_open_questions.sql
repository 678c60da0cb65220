-- Gaps that questions opened, with the last question where it is kept, and whether its lane sees anything at all.
with lane as materialized
( select l.lane, cong.allowed_by_policy(l.lane, '{}') as allowed from unnest(%(lanes)s::text[]) as l (lane) )
, sight as materialized
( select lane.lane
       , exists
         ( select from source.information_unit i
           where cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage
             , i.data_classification, lane.allowed) ) as sees_units
  from lane )
, gap as materialized
( select s.signal_id, s.kind, s.lane, s.occurrence_count
       , case when s.evidence ->> 'last_query_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
           then (s.evidence ->> 'last_query_id')::uuid end as query_id
  from nao.search_gap_signal s
  where s.kind = any (%(kinds)s) and s.status <> 'fixed' and s.severity <> 'security' )
select g.signal_id, g.kind, g.occurrence_count, q.query_text, sight.sees_units
from gap g
join sight using (lane)
left join lateral
( select e.query_text from nao.retrieval_metric_event e where e.query_id = g.query_id and e.type = 'query' limit 1 ) q on true
