-- For the rest of the transaction: the claims of a reader, the database role of its lane, where there is one that may be used, and
-- one plan for whatever is asked: by itself the planner plans the last check anew for every reader, which took 4 and 13 times as long as
-- the check.
select set_config('threadhouse.claims', %(claims)s, true), set_config('role', cong.usable_role(%(role)s), true)
     , set_config('plan_cache_mode', 'force_generic_plan', true)
