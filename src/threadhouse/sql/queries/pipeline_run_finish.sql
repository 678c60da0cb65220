update nao.pipeline_run
set finished_at = clock_timestamp(), status = %(status)s, counters = %(counters)s
where run_id = %(run_id)s
