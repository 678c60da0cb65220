-- Everything that was queued about a security event, oldest first; closed items are its history.
select item_id, kind, title, status, created_at, closed_at, closed_by, closing_reason
from nao.governance_queue_item where signal_id = %(signal_id)s
order by created_at, kind, item_id
