-- Old replays. Without a change there is no replay, so what is kept is counted and not dated.
delete from nao.replay_run where replay_id in (select replay_id from nao.replay_run order by replayed_at desc, replay_id offset %(keep)s)
