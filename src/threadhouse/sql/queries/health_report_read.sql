-- The newest report of a lane; of one day when a day is given.
select report_day, lane, window_days, markdown, html_path, built_at
from nao.health_report
where lane = %(lane)s and (%(day)s::date is null or report_day = %(day)s)
order by report_day desc, built_at desc
limit 1
