-- The version in force: the highest one that is activated. An audience without a row in it sees nothing.
select policy_version, audience, visibility, readiness, publication_state, risk_class, authority
     , lifecycle_stage, data_classification, permission_grants, role_grants, task_scope_limits
from cong.audience_filter_policy
where policy_version = (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp())
order by audience
