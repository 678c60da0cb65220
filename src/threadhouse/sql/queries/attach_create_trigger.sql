create or replace trigger {name} after {event} on {table} {referencing}
  for each statement execute function nao.note_touched({arguments})
