-- Go on under a role that was taken on before, for the rest of the transaction.
select set_config('role', %(role)s, true)
