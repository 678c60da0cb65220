-- How a run ended that the daemon started, which wrote no row of its own, or that was killed before it could.
insert into nao.pipeline_run as known (run_id, kind, started_at, finished_at, status, counters)
values (%(run_id)s, %(kind)s, %(started_at)s, %(finished_at)s, %(status)s, %(counters)s)
on conflict (run_id) do update
set finished_at = excluded.finished_at, status = excluded.status, counters = known.counters || excluded.counters
where known.status = 'running'
