-- What a batch followed, and since when each of its changes had waited. Kept for five weeks: the window of a report and a week to look at it.
with forgotten as
( delete from nao.change_batch where searchable_at < clock_timestamp() - interval '35 days' )
, waited as
( select case when op in ('delete', 'truncate') then 'access' else lane end as lane, min(changed_at) as changed_at, count(*) as changes
  from nao.change_log
  where transaction_id >= pg_snapshot_xmin(%(old)s::pg_snapshot)
    and not pg_visible_in_snapshot(transaction_id, %(old)s::pg_snapshot)
    and pg_visible_in_snapshot(transaction_id, %(new)s::pg_snapshot)
  group by 1, date_bin('100 milliseconds', changed_at, 'epoch') )
, batch as
( insert into nao.change_batch (consumer, followed_by, changes, read_at, access_at, searchable_at, packs_at)
  select %(consumer)s, %(followed_by)s, sum(changes), %(read_at)s
       , greatest(%(read_at)s, %(access_at)s), greatest(%(read_at)s, %(access_at)s, %(searchable_at)s), clock_timestamp()
  from waited having count(*) > 0
  returning batch_id )
insert into nao.change_wait (batch_id, lane, changed_at, changes)
select batch_id, lane, changed_at, changes from batch, waited
