-- Everything that the words of a question say about threads, for one reader: only threads, and only through units, that it may see.
-- Rights are those of this moment, twice: the reader's lists, and what the current role may see; nothing stored decides them.
with found as materialized
( select * from visible.threads_named(%(references)s::text[], %(phrases)s::text[], %(marked_terms)s::tsquery, %(folded_terms)s::tsquery
  , %(word_limit)s
  , cong.allowed_labels(%(visibility)s::text[], %(readiness)s::text[], %(publication_state)s::text[], %(risk_class)s::text[], %(authority)s::text[]
    , %(lifecycle_stage)s::text[], %(data_classification)s::text[])) )
, seen as materialized
( select t.*
  from (select distinct thread_id from found) f
  cross join lateral
  ( select s.thread_id, s.title, s.aliases, s.purpose, s.description from visible.semantic_thread s where s.thread_id = f.thread_id offset 0 ) t )
select found.signal, found.thread_id, found.value, found.wording, found.label
     , case found.signal when 'words' then t.title end as title
     , case found.signal when 'words' then coalesce(t.aliases, '{}') end as aliases
     , case found.signal when 'words' then left(coalesce(t.purpose, '') || ' ' || coalesce(t.description, ''), 4000) end as description
from found
join seen t using (thread_id)
order by found.signal, found.thread_id, found.wording, found.label
