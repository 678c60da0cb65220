-- What was committed after a position, one row a key, in the order of its first change; all of it or only what can take a right away.
select table_name, row_key, bool_or(lane = 'access' or op in ('delete', 'truncate')) as takes_away, count(*) as changes
     , min(changed_at) as first_at
from nao.change_log
where transaction_id >= pg_snapshot_xmin(%(position)s::pg_snapshot)
  and not pg_visible_in_snapshot(transaction_id, %(position)s::pg_snapshot)
  and (lane = 'access' or op in ('delete', 'truncate') or not %(only_taking_away)s)
group by table_name, row_key
order by min(change_id)
