-- The newest replay, or one by its id, in the figures of one lane or of all.
select n.replay_id, n.stage, n.verdict, n.is_baseline, n.loss_share_limit, n.replayed_at, n.seconds, n.state_digest
     , count(r.*) as questions
     , count(r.*) filter (where cardinality(r.changes) > 0) as changed
     , count(r.*) filter (where cardinality(r.old_units) > 0) as at_risk
     , count(r.loss) as lost
from nao.replay_run n
left join nao.replay_result r on r.replay_id = n.replay_id and (%(lane)s::text is null or r.lane = %(lane)s)
where n.replay_id = coalesce(%(replay_id)s::uuid, (select replay_id from nao.replay_run order by replayed_at desc, replay_id limit 1))
group by n.replay_id
