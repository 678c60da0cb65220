-- Units that the legacy chunks of their document stand for. Null selects all.
select logical_unit_id
from nao.held_unit
where %(owner_ids)s::text[] is null or logical_unit_id = any (%(owner_ids)s)
