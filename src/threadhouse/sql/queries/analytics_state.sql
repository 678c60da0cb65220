-- Another answer means other rates or other counted days; the analysts' file is built anew then.
select (select concat_ws(' ', count(*), sum(revision), max(computed_at)) from nao.retrieval_metric_aggregate)
    || ' / ' || (select concat_ws(' ', count(*), max(computed_at)) from nao.retrieval_metric_day)
