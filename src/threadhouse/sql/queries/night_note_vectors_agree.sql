insert into nao.revocation_wait (collection, owner_id, changed_at, vectors_agreed_at)
select %(collection)s, owner_id, changed_at, clock_timestamp()
from unnest(%(owner_ids)s::text[], %(changed_at)s::timestamptz[]) as waited (owner_id, changed_at)
on conflict (collection, owner_id, changed_at) do nothing
