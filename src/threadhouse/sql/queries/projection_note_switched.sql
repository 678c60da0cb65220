-- Units appeared or went without a change of their rows: no trigger has told anybody.
with noted as
( insert into nao.change_log (table_name, row_key, op, lane)
  select 'production_document', unnest(%(document_ids)s::text[]), 'update', 'content' )
select nao.bump_threads(nao.threads_near('{}', %(document_ids)s::text[], '{}')), pg_notify('threadhouse_change', 'production_document')
