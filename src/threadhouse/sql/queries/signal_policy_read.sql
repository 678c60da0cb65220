-- The row in force for a space: of the highest activated version its own row, else the one for every space.
select policy_version, space_id, window_days, statement_days, conditions, gaps
from cong.signal_policy
where policy_version = (select max(policy_version) from cong.signal_policy where activated_at <= statement_timestamp())
  and space_id in (%(space_id)s, '')
order by space_id desc
limit 1
