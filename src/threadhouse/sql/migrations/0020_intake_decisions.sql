-- Every decision about a proposal. Until now a later one replaced who took the earlier one and why.

create table nao.intake_decision
( decision_id bigint generated always as identity primary key
, proposal_id uuid not null references nao.thread_intake_proposal on delete cascade
, status text not null check (status in ('accepted', 'rejected'))
, decided_at timestamptz not null
, decided_by text not null
, reason text not null
);
create index intake_decision_proposal_idx on nao.intake_decision (proposal_id);
comment on table nao.intake_decision is 'What was decided about a proposal, when, by whom and why. Rows are only added; the proposal holds the last one.';

-- One that is open again has lost when it was decided: it was a rejection, last touched when it was opened again.
insert into nao.intake_decision (proposal_id, status, decided_at, decided_by, reason)
select proposal_id, case status when 'accepted' then 'accepted' else 'rejected' end, coalesce(decided_at, updated_at), decided_by
     , coalesce(decision_reason, '')
from nao.thread_intake_proposal
where decided_by is not null;
