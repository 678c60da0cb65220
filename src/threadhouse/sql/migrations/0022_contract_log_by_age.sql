-- Ordinary entries of the contract log (a citation that was out of date, say) may leave by age. What tells of a security event stays as
-- it was written, and so does every item of the governance queue.

drop trigger keep_log on nao.consumer_contract_log;
create trigger keep_log_as_written before update on nao.consumer_contract_log
  for each row execute function nao.keep_security_record();
create trigger keep_log before delete on nao.consumer_contract_log
  for each row when
    ( old.kind = 'wrong_audience_result' or old.signal_id is not null
      or current_setting('threadhouse.retention', true) is distinct from 'on' )
  execute function nao.keep_security_record();
