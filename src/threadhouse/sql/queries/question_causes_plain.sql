-- Causes that are plain hashes of questions: a lane and 32 hexadecimal digits, where keyed ones have 64.
select key
from
( select cause_key as key from nao.search_gap_signal where kind in ('missing_thread', 'search_gap')
  union
  select cause_key from nao.thread_intake_proposal
  union
  select unnest(question_keys) from nao.thread_intake_proposal
  union
  select question_key from nao.replay_result ) kept
where key ~ '^[a-z_]+/[0-9a-f]{32}$'
