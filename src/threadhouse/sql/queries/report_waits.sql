-- How long revokes waited, by local day on which the vectors agreed, and over all days (null) in the last row.
select grouping(local_day) = 1 as is_total, local_day, count(*) as revokes
     , percentile_cont(0.5) within group (order by vectors_s) as vectors_p50_s
     , percentile_cont(0.99) within group (order by vectors_s) as vectors_p99_s
     , percentile_cont(0.5) within group (order by packs_s) as packs_p50_s
     , percentile_cont(0.99) within group (order by packs_s) as packs_p99_s
     , count(*) - count(packs_s) as waiting_packs
from
( select (vectors_agreed_at at time zone %(zone)s)::date as local_day
       , extract(epoch from vectors_agreed_at - changed_at)::double precision as vectors_s
       , extract(epoch from packs_agreed_at - changed_at)::double precision as packs_s
  from nao.revocation_wait
  where vectors_agreed_at >= %(first)s and vectors_agreed_at < %(last)s ) w
group by rollup (local_day)
having count(*) > 0
order by local_day nulls last
