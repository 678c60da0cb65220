-- Everything that the words of a question say about threads, for one reader: only threads, and only through units, that it may see.
-- A reader without permissions of its own is its lane. Rights are those of this moment; nothing stored decides them.
-- `offset 0` keeps the planner from turning a look at one thread's units into a scan of all units: seven allow-lists look selective to it
-- and are not.
with named_unit as materialized
( select logical_unit_id, 'unit' as how from source.information_unit
  where nao.reference_key(canonical_address) = any (%(references)s::text[])
  union
  select logical_unit_id, 'unit' from source.information_unit where nao.reference_key(logical_unit_id) = any (%(references)s)
  union
  select logical_unit_id, 'document' from source.information_unit
  where nao.reference_key(nao.address_base(canonical_address)) = any (%(references)s)
  union
  select u.logical_unit_id, 'document'
  from
  ( select document_id from source.production_document where nao.reference_key(document_id) = any (%(references)s)
    union
    select document_id from source.production_document
    where nao.phrase_key(title) = any (%(phrases)s::text[]) and nao.phrase_key(title) like '%% %%' ) d
  cross join lateral
  ( select i.logical_unit_id from source.information_unit i where i.document_id = d.document_id offset 0 ) as u )
, seen_unit_of_name as materialized
( select n.logical_unit_id, n.how, u.canonical_address
  from named_unit n
  cross join lateral
  ( select i.canonical_address, i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority
         , i.lifecycle_stage, i.data_classification
    from source.information_unit i
    where i.logical_unit_id = n.logical_unit_id
    offset 0 ) as u
  where u.visibility = any (%(visibility)s::text[])
    and u.readiness = any (%(readiness)s::text[])
    and u.publication_state = any (%(publication_state)s::text[])
    and u.risk_class = any (%(risk_class)s::text[])
    and u.authority = any (%(authority)s::text[])
    and u.lifecycle_stage = any (%(lifecycle_stage)s::text[])
    and u.data_classification = any (%(data_classification)s::text[]) )
, named (thread_id, signal, value, wording, label) as materialized
( select t.thread_id, 'thread' as signal, 1::double precision as value, t.canonical_address as wording, '' as label
  from source.semantic_thread t
  where nao.reference_key(t.canonical_address) = any (%(references)s)
  union
  select t.thread_id, 'thread', 1, t.thread_id, '' from source.semantic_thread t
  where nao.reference_key(t.thread_id) = any (%(references)s)
  union all
  select m.thread_id, n.how
       , case n.how when 'unit' then max(m.confidence * case m.role when 'canonical' then 1 else 0.95 end) else count(*) end
       , min(n.canonical_address), ''
  from seen_unit_of_name n
  join source.thread_membership m using (logical_unit_id)
  where m.status <> 'rejected'
  group by m.thread_id, n.how
  union all
  -- An anchor counts when the reader sees a unit of that name; else anchors would tell of units that it does not see.
  select p.target_id, 'anchor', 1, p.phrase, ''
  from nao.lexicon_phrase p
  where p.kind = 'anchor'
    and ( p.phrase_key in (select nao.reference_key(n.canonical_address) from seen_unit_of_name n)
       or p.phrase_key in (select nao.reference_key(nao.address_base(n.canonical_address)) from seen_unit_of_name n) )
  union all
  select p.target_id, p.kind, 1, p.phrase, ''
  from nao.lexicon_phrase p
  where p.kind in ('title', 'alias') and p.phrase_key = any (%(phrases)s)
  union all
  select t.thread_id, 'label', 1, p.phrase, p.target_id
  from nao.lexicon_phrase p
  join source.semantic_thread t on p.target_id = any (t.labels)
  where p.kind = 'label' and p.phrase_key = any (%(phrases)s) )
, worded as
( select l.thread_id
       , ts_rank(l.marked, %(marked_terms)s::tsquery) + ts_rank(l.folded, %(folded_terms)s::tsquery) as rank
  from nao.thread_lexicon l
  where l.folded @@ %(folded_terms)s::tsquery
  order by rank desc, l.thread_id )
, seen_worded as
( -- Best first, and no further than the limit: a thread that the reader does not see takes no place of one that it sees.
  select w.thread_id, 'words' as signal, w.rank::double precision as value, '' as wording, '' as label
  from worded w
  cross join lateral
  ( select t.thread_id, t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority
    from source.semantic_thread t where t.thread_id = w.thread_id offset 0 ) as t
  cross join lateral
  ( select from source.thread_membership m
    cross join lateral
    ( select u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
      from source.information_unit u
      where u.logical_unit_id = m.logical_unit_id
      offset 0 ) as u
    where m.thread_id = t.thread_id and m.status <> 'rejected'
      and u.visibility = any (%(visibility)s)
      and u.readiness = any (%(readiness)s)
      and u.publication_state = any (%(publication_state)s)
      and u.risk_class = any (%(risk_class)s)
      and u.authority = any (%(authority)s)
      and u.lifecycle_stage = any (%(lifecycle_stage)s)
      and u.data_classification = any (%(data_classification)s)
    limit 1 ) as seen_unit
  where (t.visibility is null or t.visibility = any (%(visibility)s))
  and (t.readiness is null or t.readiness = any (%(readiness)s))
  and (t.publication_state is null or t.publication_state = any (%(publication_state)s))
  and (t.risk_class is null or t.risk_class = any (%(risk_class)s))
  and (t.authority is null or t.authority = any (%(authority)s))
  limit %(word_limit)s )
, seen_named as
( select n.thread_id, n.signal, n.value, n.wording, n.label
  from named n
  where n.thread_id in
  ( select t.thread_id
    from (select distinct thread_id from named) d
    cross join lateral
    ( select t.thread_id, t.visibility, t.readiness, t.publication_state, t.risk_class, t.authority
    from source.semantic_thread t where t.thread_id = d.thread_id offset 0 ) as t
    cross join lateral
  ( select from source.thread_membership m
    cross join lateral
    ( select u.visibility, u.readiness, u.publication_state, u.risk_class, u.authority, u.lifecycle_stage, u.data_classification
      from source.information_unit u
      where u.logical_unit_id = m.logical_unit_id
      offset 0 ) as u
    where m.thread_id = t.thread_id and m.status <> 'rejected'
      and u.visibility = any (%(visibility)s)
      and u.readiness = any (%(readiness)s)
      and u.publication_state = any (%(publication_state)s)
      and u.risk_class = any (%(risk_class)s)
      and u.authority = any (%(authority)s)
      and u.lifecycle_stage = any (%(lifecycle_stage)s)
      and u.data_classification = any (%(data_classification)s)
    limit 1 ) as seen_unit
    where (t.visibility is null or t.visibility = any (%(visibility)s))
  and (t.readiness is null or t.readiness = any (%(readiness)s))
  and (t.publication_state is null or t.publication_state = any (%(publication_state)s))
  and (t.risk_class is null or t.risk_class = any (%(risk_class)s))
  and (t.authority is null or t.authority = any (%(authority)s)) ) )
select found.signal, found.thread_id, found.value, found.wording, found.label
     , case found.signal when 'words' then t.title end as title
     , case found.signal when 'words' then coalesce(t.aliases, '{}') end as aliases
     , case found.signal when 'words' then left(coalesce(t.purpose, '') || ' ' || coalesce(t.description, ''), 4000) end as description
from ( select thread_id, signal, value, wording, label from seen_named
  union all
  select thread_id, signal, value, wording, label from seen_worded ) found
join source.semantic_thread t using (thread_id)
order by found.signal, found.thread_id, found.wording, found.label
