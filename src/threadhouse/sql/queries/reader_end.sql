-- For the rest of the transaction: the role that writes down what left, or that of whoever builds a pack.
select set_config('role', cong.usable_role(%(role)s), true)
