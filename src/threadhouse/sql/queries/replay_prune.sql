-- Old replays. Without a change there is no replay, so what is kept is counted and not dated; what was published last is always kept.
delete from nao.replay_run
where replay_id in (select replay_id from nao.replay_run order by replayed_at desc, replay_id offset %(keep)s)
  and replay_id is distinct from (select replay_id from nao.replay_run where is_baseline order by replayed_at desc, replay_id limit 1)
