-- Who may see what, as data. A change is a new version; the highest activated version is in force.

create schema if not exists cong;
comment on schema cong is 'Access policy layer ("Cổng").';

create table if not exists cong.audience_filter_policy
( policy_version int not null check (policy_version >= 1)
, audience text not null check (audience in ('customer', 'partner', 'employee', 'ai_agent'))
, visibility text[] not null
, readiness text[] not null
, publication_state text[] not null
, risk_class text[] not null
, authority text[] not null
, lifecycle_stage text[] not null
, data_classification text[] not null
, permission_grants jsonb not null default '{}'
, activated_at timestamptz not null default now()
, activated_by text not null default current_user
, primary key (policy_version, audience)
);
comment on column cong.audience_filter_policy.permission_grants is
  '{"permission": {"field": ["value", ...]}}: what holding the permission adds to the allow-lists.';

insert into cong.audience_filter_policy
( policy_version, audience, visibility, readiness, publication_state, risk_class, authority, lifecycle_stage, data_classification, permission_grants, activated_by )
values
( 1, 'customer', '{public}', '{published}', '{published}', '{low,standard}', '{enacted,draft,runtime}'
, '{law,design,code,test,report}', '{unclassified}', '{}', 'shipped default' ),
( 1, 'partner', '{public,partner}', '{published}', '{published}', '{low,standard}', '{enacted,draft,runtime}'
, '{law,design,code,test,report}', '{unclassified}', '{}', 'shipped default' ),
( 1, 'employee', '{public,partner,employee}', '{approved,published}', '{unpublished,published}', '{low,standard}', '{enacted,draft,runtime}'
, '{law,design,test,report}', '{unclassified}', '{}', 'shipped default' ),
( 1, 'ai_agent', '{public,partner,employee,internal}', '{approved,published}', '{unpublished,published}', '{low,standard}', '{enacted,draft,runtime}'
, '{law,design,code,test,report}', '{unclassified}'
, '{"read:drafts": {"readiness": ["draft", "under_review"]}
  , "read:superseded": {"readiness": ["superseded"]}
  , "read:withdrawn": {"publication_state": ["withdrawn"]}
  , "read:restricted": {"visibility": ["restricted"]}
  , "read:incidents": {"lifecycle_stage": ["incident"]}
  , "read:confidential": {"data_classification": ["confidential"]}}', 'shipped default' )
on conflict do nothing;
