insert into public.vocabulary_label as t (label, language, aliases, description)
select label, language, aliases, description
from load_label s
where not exists
( select from public.vocabulary_label o
  where (o.label, o.language, o.aliases, o.description) = (s.label, s.language, s.aliases, s.description) )
on conflict (label, language) do update set aliases = excluded.aliases, description = excluded.description
returning (xmax = 0) as was_inserted
