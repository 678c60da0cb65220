-- The row in force for a space: of the highest activated version its own row, else the one for every space.
select policy_version, space_id, merge_similarity, min_questions, min_sessions, recurrence_factor
from cong.intake_policy
where policy_version = (select max(policy_version) from cong.intake_policy where activated_at <= statement_timestamp())
  and space_id in (%(space_id)s, '')
order by space_id desc
limit 1
