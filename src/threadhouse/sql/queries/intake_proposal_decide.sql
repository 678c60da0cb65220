-- The proposal holds its last decision; all of them are kept beside it.
with decided as
( update nao.thread_intake_proposal set
    status = %(status)s, decided_at = clock_timestamp(), decided_by = %(who)s, decision_reason = %(why)s
  , questions_at_decision = question_count, thread_id = %(thread_id)s, updated_at = clock_timestamp()
  where proposal_id = %(proposal_id)s
  returning proposal_id, status, decided_at, decided_by, decision_reason )
insert into nao.intake_decision (proposal_id, status, decided_at, decided_by, reason)
select proposal_id, status, decided_at, decided_by, decision_reason from decided
