-- Proposals, those that wait for somebody first and the most asked of them first.
select p.proposal_id, p.lane, p.cause_key, p.proposed_title, p.language, p.status, p.question_count, p.session_count, p.cohesion
     , p.candidate_units, p.queries, p.question_keys, p.query_ids, p.questions_at_decision, p.first_seen_at, p.last_seen_at, p.created_at
     , p.decided_at, p.decided_by, p.decision_reason, p.thread_id
from nao.thread_intake_proposal p
where (%(proposal_id)s::uuid is null or p.proposal_id = %(proposal_id)s)
  and (%(status)s::text is null or p.status = %(status)s)
  and (%(lane)s::text is null or p.lane = %(lane)s)
order by p.status <> 'open', p.question_count desc, p.last_seen_at desc nulls last, p.proposal_id
