-- Which state of a day's events its rates were counted from, so that a run killed between extract and count is made good.

create table nao.retrieval_metric_day
( local_day date primary key
, source_digest text not null
, metrics_version text not null
, computed_at timestamptz not null default now()
);
comment on table nao.retrieval_metric_day is
  'One row per counted day. A day is due when its digest in the lake, or the counting rule, is another one.';
