-- How long changes waited; the waits go along.
select b.ctid from nao.change_batch b where b.searchable_at < %(before)s
