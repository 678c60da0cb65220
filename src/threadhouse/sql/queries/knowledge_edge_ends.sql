-- What edges point at, one row for each combination of labels that makes the end visible to somebody.
-- A document is seen by whoever sees one of its units, or by its own labels while it has none; a thread by whoever sees
-- a unit of it. The label columns of an end that exists but that nothing makes visible are null.
with ends as (select distinct * from unnest(%(kinds)s::text[], %(ids)s::text[]) as e (kind, id))
select e.kind, e.id, u.title, u.canonical_address, u.lifecycle_stage as own_stage
     , null::text as own_visibility, null::text as own_readiness, null::text as own_publication_state
     , null::text as own_risk_class, null::text as own_authority
     , u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
from ends e join source.information_unit u on e.kind = 'unit' and u.logical_unit_id = e.id
union
select e.kind, e.id, d.title, d.path, d.lifecycle_stage
     , null, null, null, null, null
     , case when d.has_units then u.visibility else d.visibility end
     , case when d.has_units then u.readiness else d.readiness end
     , case when d.has_units then u.publication_state else d.publication_state end
     , case when d.has_units then u.risk_class else d.risk_class end
     , case when d.has_units then u.authority else d.authority end
     , case when d.has_units then u.lifecycle_stage else d.lifecycle_stage end
     , case when d.has_units then u.data_classification else d.data_classification end
from ends e join source.production_document d on e.kind = 'document' and d.document_id = e.id
left join source.information_unit u on d.has_units and u.document_id = d.document_id
union
select e.kind, e.id, t.title, t.canonical_address, null
     , t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority
     , u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
from ends e join source.semantic_thread t on e.kind = 'thread' and t.thread_id = e.id
left join source.thread_membership m on m.thread_id = t.thread_id and m.status in ('confirmed', 'proposed', 'needs_human')
left join source.information_unit u on u.logical_unit_id = m.logical_unit_id
