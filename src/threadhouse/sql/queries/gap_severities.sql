-- Severities that the rules give now, where they differ.
update nao.search_gap_signal s set severity = given.severity
from jsonb_to_recordset(%(severities)s) as given (signal_id uuid, severity text)
where s.signal_id = given.signal_id and s.severity <> given.severity and s.severity <> 'security'
