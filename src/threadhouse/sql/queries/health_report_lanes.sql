select distinct lane from nao.health_report where %(day)s::date is null or report_day = %(day)s order by lane
