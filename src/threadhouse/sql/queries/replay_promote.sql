update nao.replay_run set is_baseline = true
where replay_id =
  ( select replay_id from nao.replay_run where state_digest = %(state_digest)s order by replayed_at desc, replay_id limit 1 )
  and verdict <> 'stopped'
