-- A thread that nobody sees until somebody publishes it, with the units that a search found as proposals.
with thread as
( insert into public.semantic_thread
  ( thread_id, canonical_address, title, purpose, owner, visibility, readiness, publication_state, risk_class, authority )
  values (%(thread_id)s, %(thread_id)s, %(title)s, %(purpose)s, %(owner)s, 'internal', 'draft', 'unpublished', 'standard', 'draft')
  returning thread_id )
, members as
( insert into public.thread_membership (thread_id, logical_unit_id, role, confidence, status, evidence)
  select thread.thread_id, u.unit_id, 'supporting', 0.5, 'proposed', %(evidence)s
  from thread, unnest(%(unit_ids)s::text[]) as u (unit_id)
  returning logical_unit_id )
select thread.thread_id, (select count(*) from members) from thread
