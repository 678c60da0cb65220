drop trigger {name} on {table}
