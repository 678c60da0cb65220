update nao.thread_intake_proposal set
  status = %(status)s, decided_at = clock_timestamp(), decided_by = %(who)s, decision_reason = %(why)s
, questions_at_decision = question_count, thread_id = %(thread_id)s, updated_at = clock_timestamp()
where proposal_id = %(proposal_id)s
