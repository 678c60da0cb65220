-- Days whose report is missing, or whose window holds a day that was counted again after the report was built.
select d.day
from unnest(%(days)s::date[]) as d (day)
left join nao.health_report r on r.report_day = d.day and r.lane = %(lane)s and r.window_days = %(window_days)s
where r.report_day is null
   or exists
   ( select
     from nao.retrieval_metric_day m
     where m.local_day between d.day - (%(window_days)s::int - 1) and d.day
       and m.computed_at > r.built_at )
order by d.day
