-- Runs that never said how they ended. Whoever asks holds the lock of this kind, so none of them lives.
update nao.pipeline_run set status = 'failed', counters = counters || '{"was_killed": true}'
where kind = %(kind)s and status = 'running'
