-- Tables of schema public that have the name of one in the trial schema, and what they lack of it. Anything but a table lacks everything.
select t.relname, string_agg(a.attname || ' ' || format_type(a.atttypid, null), ', ' order by a.attnum) as lacking
from pg_class t
join pg_attribute a on a.attrelid = t.oid and a.attnum > 0
join pg_class p on p.relname = t.relname and p.relnamespace = to_regnamespace('public')
left join pg_attribute o on o.attrelid = p.oid and p.relkind in ('r', 'p') and o.attname = a.attname and o.atttypid = a.atttypid
where t.relnamespace = to_regnamespace('threadhouse_trial') and t.relkind = 'r' and o.attname is null
group by t.relname
order by t.relname
