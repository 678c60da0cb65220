-- How long changes waited that were followed within a span, one row a lane: half of them, and 99 of 100, waited no longer.
with waited as
( select w.lane, w.changes
       , extract(epoch from case w.lane when 'access' then b.access_at else b.searchable_at end - w.changed_at)::double precision as waited_s
       , b.searchable_at
  from nao.change_wait w join nao.change_batch b using (batch_id)
  where b.searchable_at >= %(first)s and b.searchable_at < %(last)s )
, ranked as
( select *, sum(changes) over (partition by lane order by waited_s) as reached, sum(changes) over (partition by lane) as total
  from waited )
select lane, total::bigint as changes
     , min(waited_s) filter (where reached >= 0.5 * total) as p50_s
     , min(waited_s) filter (where reached >= 0.99 * total) as p99_s
     , max(searchable_at) as last_at
from ranked
group by lane, total
order by lane
