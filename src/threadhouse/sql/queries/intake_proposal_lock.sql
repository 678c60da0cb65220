select status from nao.thread_intake_proposal where proposal_id = %(proposal_id)s for update
