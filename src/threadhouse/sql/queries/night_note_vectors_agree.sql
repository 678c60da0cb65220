-- Waits are kept for 400 days: a year to look back on, and a month to do it in. A bulk revoke writes a row for each owner.
with forgotten as
( delete from nao.revocation_wait where vectors_agreed_at < clock_timestamp() - interval '400 days' )
insert into nao.revocation_wait (collection, owner_id, changed_at, vectors_agreed_at)
select %(collection)s, owner_id, changed_at, clock_timestamp()
from unnest(%(owner_ids)s::text[], %(changed_at)s::timestamptz[]) as waited (owner_id, changed_at)
on conflict (collection, owner_id, changed_at) do nothing
