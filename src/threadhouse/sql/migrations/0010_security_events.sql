-- What closing a security event needs: which log entries belong to it, and that who closed it and why is there and stays.

alter table nao.consumer_contract_log add column signal_id uuid references nao.search_gap_signal;
comment on column nao.consumer_contract_log.signal_id is 'The security event that the entry is an occurrence of; null for broken rules that are none.';

update nao.consumer_contract_log entry set signal_id = item.signal_id
from nao.governance_queue_item item
where entry.kind = 'wrong_audience_result' and item.signal_id is not null
  and item.evidence ->> 'query_id' = entry.details ->> 'query_id';

create index consumer_contract_log_signal_idx on nao.consumer_contract_log (signal_id) where signal_id is not null;
create index governance_queue_item_signal_idx on nao.governance_queue_item (signal_id, status);

-- Not valid: what somebody closed by hand before stays as it is.
alter table nao.governance_queue_item add constraint governance_queue_item_closed_by_whom_and_why check
( case status when 'closed' then closed_at is not null and coalesce(closed_by ~ '\S', false) and coalesce(closing_reason ~ '\S', false)
              else closed_at is null and closed_by is null and closing_reason is null end ) not valid;

create function nao.keep_security_record() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  raise exception '% in nao.% is an audit trail and stays as it was written', lower(tg_op), tg_table_name
    using errcode = 'integrity_constraint_violation';
end
$fn$;
comment on function nao.keep_security_record is 'Refuses to rewrite or remove what happened.';

create trigger keep_closed before update on nao.governance_queue_item
  for each row when (old.status = 'closed') execute function nao.keep_security_record();
create trigger keep_items before delete on nao.governance_queue_item
  for each row execute function nao.keep_security_record();
create trigger keep_items_truncate before truncate on nao.governance_queue_item
  for each statement execute function nao.keep_security_record();
create trigger keep_log before update or delete on nao.consumer_contract_log
  for each row execute function nao.keep_security_record();
create trigger keep_log_truncate before truncate on nao.consumer_contract_log
  for each statement execute function nao.keep_security_record();
