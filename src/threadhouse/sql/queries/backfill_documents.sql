-- Documents of the legacy collection that are named; of these, those written in a time.
select d.document_id
from source.production_document d
where (%(everything)s or d.document_id = any (%(documents)s))
  and not d.has_units
  and (%(begins)s::timestamptz is null or d.updated_at >= %(begins)s)
  and (%(ends)s::timestamptz is null or d.updated_at < %(ends)s)
order by d.document_id
