-- The answer that each question had when it was last asked of a state that was published.
select distinct on (r.question_key) r.question_key, r.new_path, r.new_thread_id, r.new_units, r.new_top_unit
from nao.replay_result r
join nao.replay_run n using (replay_id)
where n.is_baseline and r.question_key = any (%(question_keys)s)
order by r.question_key, n.replayed_at desc, n.replay_id
