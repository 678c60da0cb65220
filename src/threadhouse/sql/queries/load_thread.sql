insert into public.semantic_thread as t
( thread_id, canonical_address, title, aliases, purpose, description, labels, anchors, owner
, visibility, readiness, publication_state, risk_class, authority )
select s.thread_id, s.canonical_address, s.title, s.aliases, s.purpose, s.description, s.labels, s.anchors, s.owner
     , s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority
from load_thread s
left join public.semantic_thread o using (thread_id)
where o.thread_id is null
   or ( s.canonical_address, s.title, s.aliases, s.purpose, s.description, s.labels, s.anchors, s.owner
      , s.visibility, s.readiness, s.publication_state, s.risk_class, s.authority )
    is distinct from
      ( o.canonical_address, o.title, o.aliases, o.purpose, o.description, o.labels, o.anchors, o.owner
      , o.visibility, o.readiness, o.publication_state, o.risk_class, o.authority )
on conflict (thread_id) do update set
  canonical_address = excluded.canonical_address
, title = excluded.title
, aliases = excluded.aliases
, purpose = excluded.purpose
, description = excluded.description
, labels = excluded.labels
, anchors = excluded.anchors
, owner = excluded.owner
, visibility = excluded.visibility
, readiness = excluded.readiness
, publication_state = excluded.publication_state
, risk_class = excluded.risk_class
, authority = excluded.authority
returning (xmax = 0) as was_inserted
