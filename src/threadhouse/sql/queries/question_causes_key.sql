-- Keyed causes in the place of plain ones, everywhere at once. Where a gap has both, each is counted on as it is.
with keyed as materialized
( select key as plain, value as cause from jsonb_each_text(%(keyed)s) )
, signals as
( update nao.search_gap_signal s set cause_key = keyed.cause
  from keyed
  where s.cause_key = keyed.plain and s.kind in ('missing_thread', 'search_gap')
    and not exists (select from nao.search_gap_signal other where other.kind = s.kind and other.cause_key = keyed.cause) )
, proposals as
( update nao.thread_intake_proposal p set
    cause_key = coalesce((select cause from keyed where plain = p.cause_key), p.cause_key)
  , question_keys = array
    ( select distinct coalesce(keyed.cause, k.key) from unnest(p.question_keys) as k (key) left join keyed on keyed.plain = k.key order by 1 )
  where p.cause_key in (select plain from keyed) or p.question_keys && array(select plain from keyed) )
update nao.replay_result r set question_key = keyed.cause
from keyed where r.question_key = keyed.plain
