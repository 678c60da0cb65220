-- With those that began before it and never ended.
with ended as
( select position, cluster, began_at from nao.change_reconcile where run_id = %(run_id)s )
, forgotten as
( delete from nao.change_reconcile where began_at <= (select began_at from ended) )
select position::text, cluster, began_at from ended
