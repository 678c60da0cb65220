-- A horizon only ever moves on.
insert into nao.retrieval_event_horizon as known (kept_from, lake_kept_from, time_zone)
values (%(kept_from)s, %(lake_kept_from)s, %(time_zone)s)
on conflict (is_only_row) do update
set kept_from = greatest(known.kept_from, excluded.kept_from)
  , lake_kept_from = greatest(known.lake_kept_from, excluded.lake_kept_from)
  , time_zone = excluded.time_zone
  , moved_at = now()
where (known.kept_from, known.lake_kept_from)
   is distinct from (greatest(known.kept_from, excluded.kept_from), greatest(known.lake_kept_from, excluded.lake_kept_from))
