-- A whole version at once, what it changes, and, when somebody sees more than before, an item for those who watch over that.
with version as
( select coalesce(max(policy_version), 0) + 1 as number from cong.audience_filter_policy )
, written as
( insert into cong.audience_filter_policy
  ( policy_version, audience, visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification
  , permission_grants, role_grants, task_scope_limits, activated_at, activated_by )
  select version.number, r.audience, r.visibility, r.readiness, r.publication_state, r.risk_class, r.authority, r.lifecycle_stage
       , r.data_classification, r.permissions, r.roles, r.task_scopes, statement_timestamp(), %(applied_by)s
  from version, jsonb_to_recordset(%(rules)s) as r
  ( audience text, visibility text[], readiness text[], publication_state text[], risk_class text[], authority text[]
  , lifecycle_stage text[], data_classification text[], permissions jsonb, roles jsonb, task_scopes jsonb ) )
, logged as
( insert into cong.audience_policy_change (policy_version, previous_version, applied_by, reason, widens, narrows)
  select number, %(previous_version)s, %(applied_by)s, %(reason)s, %(widens)s, %(narrows)s from version )
, queued as
( insert into nao.governance_queue_item (item_id, kind, title, evidence)
  select gen_random_uuid(), 'governance', format('Audience policy version %%s widens what %%s may see', number, %(who)s::text)
       , jsonb_build_object('policy_version', number, 'applied_by', %(applied_by)s::text, 'reason', %(reason)s::text, 'widens', %(widens)s::jsonb)
  from version where jsonb_array_length(%(widens)s::jsonb) > 0 )
select number from version
