-- What is known now of states that are open already; written only where it changed.
update nao.search_gap_signal s set evidence = s.evidence || given.evidence
from jsonb_to_recordset(%(states)s) as given (kind text, cause_key text, evidence jsonb)
where s.kind = given.kind and s.cause_key = given.cause_key and s.status <> 'fixed' and not s.evidence @> given.evidence
