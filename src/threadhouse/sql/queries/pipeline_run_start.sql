insert into nao.pipeline_run (run_id, kind) values (%(run_id)s, %(kind)s)
