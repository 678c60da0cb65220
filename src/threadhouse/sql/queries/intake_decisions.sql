-- Every decision about a proposal, oldest first.
select status, decided_at, decided_by, reason from nao.intake_decision where proposal_id = %(proposal_id)s order by decision_id
