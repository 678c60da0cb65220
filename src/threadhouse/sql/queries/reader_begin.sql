-- For the rest of the transaction: the claims of a reader, and the database role of its lane, where there is one that may be used.
select set_config('threadhouse.claims', %(claims)s, true), set_config('role', cong.usable_role(%(role)s), true)
