-- The state that was replayed and published last.
select state_digest from nao.replay_run where is_baseline order by replayed_at desc, replay_id limit 1
