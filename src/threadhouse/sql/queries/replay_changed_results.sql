-- Questions of a replay whose answer changed, losses first; the text as far as its event still holds it.
select r.question_key, r.lane, r.query_id, q.query_text as text, r.old_path, r.old_thread_id, r.old_units, r.old_top_unit
     , r.new_path, r.new_thread_id, r.new_units, r.new_top_unit, r.changes, r.loss
from nao.replay_result r
left join lateral
( select e.query_text from nao.retrieval_metric_event e where e.query_id = r.query_id and e.type = 'query' limit 1 ) q on true
where r.replay_id = %(replay_id)s and cardinality(r.changes) > 0 and (%(lane)s::text is null or r.lane = %(lane)s)
order by r.loss is null, r.lane, r.question_key
