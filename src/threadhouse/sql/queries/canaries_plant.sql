-- Everything that is planted, in one statement inside a transaction that is thrown away: rows refer to each other, and the triggers that
-- follow see all of them.
with document as
( insert into public.production_document
  ( document_id, path, title, body, language, lifecycle_stage, data_classification
  , visibility, readiness, publication_state, risk_class, authority )
  select document_id, path, title, body, language, lifecycle_stage, data_classification
       , visibility, readiness, publication_state, risk_class, authority
  from jsonb_to_recordset(%(documents)s) as given
  ( document_id text, path text, title text, body text, language text, lifecycle_stage text, data_classification text
  , visibility text, readiness text, publication_state text, risk_class text, authority text ) )
, unit as
( insert into public.tac_logical_unit
  ( logical_unit_id, document_id, canonical_address, unit_kind, lifecycle_stage, data_classification, current_version_id
  , visibility, readiness, publication_state, risk_class, authority )
  select logical_unit_id, document_id, canonical_address, 'leak_canary', lifecycle_stage, data_classification, unit_version_id
       , visibility, readiness, publication_state, risk_class, authority
  from jsonb_to_recordset(%(units)s) as given
  ( logical_unit_id text, document_id text, canonical_address text, lifecycle_stage text, data_classification text, unit_version_id uuid
  , visibility text, readiness text, publication_state text, risk_class text, authority text ) )
, version as
( insert into public.tac_unit_version (unit_version_id, logical_unit_id, revision, title, body)
  select unit_version_id, logical_unit_id, 1, title, body
  from jsonb_to_recordset(%(units)s) as given (unit_version_id uuid, logical_unit_id text, title text, body text) )
, thread as
( insert into public.semantic_thread
  (thread_id, canonical_address, title, aliases, purpose, visibility, readiness, publication_state, risk_class, authority)
  select thread_id, canonical_address, title, array[alias], purpose, visibility, readiness, publication_state, risk_class, authority
  from jsonb_to_recordset(%(threads)s) as given
  ( thread_id text, canonical_address text, title text, alias text, purpose text
  , visibility text, readiness text, publication_state text, risk_class text, authority text ) )
, membership as
( insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status)
  select thread_id, logical_unit_id, role, confidence, status
  from jsonb_to_recordset(%(memberships)s) as given
  (thread_id text, logical_unit_id text, role text, confidence double precision, status text) )
, gap as
( insert into public.expected_artifact_missing (thread_id, lifecycle_stage, description)
  select thread_id, lifecycle_stage, description
  from jsonb_to_recordset(%(gaps)s) as given (thread_id text, lifecycle_stage text, description text) )
insert into public.universal_edge (edge_id, source_kind, source_id, target_kind, target_id, edge_type)
select gen_random_uuid(), 'unit', source_id, target_kind, target_id, 'leak_canary'
from jsonb_to_recordset(%(links)s) as given (source_id text, target_kind text, target_id text)
