-- A replay and all of its answers, at once.
with run as
( insert into nao.replay_run
  ( replay_id, stage, state_digest, verdict, is_baseline, questions, changed, at_risk, lost, loss_share_limit, seconds )
  values (%(replay_id)s, %(stage)s, %(state_digest)s, %(verdict)s, %(is_baseline)s, %(questions)s, %(changed)s, %(at_risk)s, %(lost)s
  , %(loss_share_limit)s, %(seconds)s)
  returning replay_id )
insert into nao.replay_result
( replay_id, question_key, lane, query_id, old_path, old_thread_id, old_units, old_top_unit, new_path, new_thread_id, new_units, new_top_unit
, changes, loss )
select run.replay_id, question_key, lane, query_id, old_path, old_thread_id, old_units, old_top_unit, new_path, new_thread_id, new_units
     , new_top_unit, changes, loss
from run, jsonb_to_recordset(%(results)s) as given
( question_key text, lane text, query_id uuid, old_path text, old_thread_id text, old_units text[], old_top_unit text, new_path text
, new_thread_id text, new_units text[], new_top_unit text, changes text[], loss text )
