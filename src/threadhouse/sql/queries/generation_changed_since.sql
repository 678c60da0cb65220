-- Rows of the source that changed since a moment; '*' stands for all of a table.
select distinct row_key from nao.change_log where changed_at >= %(since)s
