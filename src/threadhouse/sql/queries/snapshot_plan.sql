-- Until the transaction ends: a day is found through indexes, whatever the whole table holds, and each day is planned for itself. With a
-- plan for any day, and with pages priced as on a spinning disk, each day read the whole table.
select set_config('random_page_cost', '1.1', true), set_config('plan_cache_mode', 'force_custom_plan', true)
