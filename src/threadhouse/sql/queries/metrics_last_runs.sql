select distinct on (kind) kind, status, started_at, finished_at
from nao.pipeline_run
order by kind, started_at desc
