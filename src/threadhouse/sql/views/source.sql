-- What the pipeline reads of the users' tables. Redefine these views to attach an existing database.
-- Text leaves here in NFC whatever the tables hold; offsets count its code points.

create schema if not exists source;

create or replace view source.production_document as
select d.document_id
     , d.path
     , normalize(d.title, nfc) as title
     , d.tags
     , normalize(d.body, nfc) as body
     , d.language
     , d.revision
     , d.content_hash
     , d.lifecycle_stage
     , d.data_classification
     , d.visibility, d.readiness, d.publication_state, d.risk_class, d.authority
     , d.updated_at
     , exists (select from public.tac_logical_unit u where u.document_id = d.document_id and u.current_version_id is not null)
       and not exists (select from nao.document_in_legacy h where h.document_id = d.document_id) as has_units
from public.production_document d;

create or replace view source.information_unit as
select u.logical_unit_id
     , u.document_id
     , u.canonical_address
     , u.unit_kind
     , u.lifecycle_stage
     , u.ordinal
     , coalesce(u.visibility, d.visibility) as visibility
     , coalesce(u.readiness, d.readiness) as readiness
     , coalesce(u.publication_state, d.publication_state) as publication_state
     , coalesce(u.risk_class, d.risk_class) as risk_class
     , coalesce(u.authority, d.authority) as authority
     , u.data_classification
     , v.unit_version_id
     , v.revision
     , normalize(v.title, nfc) as title
     , normalize(v.body, nfc) as body
     , v.content_hash
     , v.created_at
     , normalize(d.title, nfc) as document_title
     , d.path
     , d.language
     , d.tags
from public.tac_logical_unit u
join public.production_document d using (document_id)
join public.tac_unit_version v on v.logical_unit_id = u.logical_unit_id and v.unit_version_id = u.current_version_id
where not exists (select from nao.document_in_legacy h where h.document_id = u.document_id);

create or replace view source.semantic_thread as
select thread_id, canonical_address, title, aliases, purpose, description, labels, anchors, owner
     , visibility, readiness, publication_state, risk_class, authority, input_revision
from public.semantic_thread;

create or replace view source.thread_membership as
select thread_id, logical_unit_id, role, confidence, status, evidence from public.thread_membership;

create or replace view source.expected_artifact_missing as
select thread_id, lifecycle_stage, description, status from public.expected_artifact_missing;

create or replace view source.universal_edge as
select edge_id, source_kind, source_id, target_kind, target_id, edge_type from public.universal_edge;

create or replace view source.vocabulary_label as
select label, language, aliases, description from public.vocabulary_label;
