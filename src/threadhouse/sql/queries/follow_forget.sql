-- Views that the file in force no longer makes: what they showed is gone, and said to be. Any thread may have shown some of it.
with gone as
( delete from nao.source_row r where r.view_name <> all (%(kept)s) returning r.view_name, r.row_key )
, counted as
( update nao.attached_thread_revision set input_revision = input_revision + 1 where exists (select from gone) )
insert into nao.change_log (table_name, row_key, op, lane)
select v.table_name, g.row_key, 'delete', v.lane from gone g join nao.source_view v using (view_name)
