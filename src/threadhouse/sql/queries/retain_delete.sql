-- One batch. A row that somebody changes meanwhile has moved and stays.
delete from {table} where ctid = any (array({victims} limit %(limit)s))
