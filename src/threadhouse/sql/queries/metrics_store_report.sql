insert into nao.health_report (report_day, lane, window_days, figures, markdown, html_path)
values (%(report_day)s, %(lane)s, %(window_days)s, %(figures)s, %(markdown)s, %(html_path)s)
on conflict (report_day, lane, window_days) do update
set figures = excluded.figures, markdown = excluded.markdown, html_path = excluded.html_path, built_at = now()
