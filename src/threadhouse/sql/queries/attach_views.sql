-- Views of a file that the product reads, in the order in which their changes are followed.
select v.view_name, v.key_columns, v.id_columns
from nao.source_view v
join pg_class c on c.relname = v.view_name and c.relkind = 'v' and c.relnamespace = to_regnamespace(%(schema)s)
order by array_position(array['information_unit', 'production_document', 'semantic_thread', 'thread_membership'], v.view_name), v.view_name
