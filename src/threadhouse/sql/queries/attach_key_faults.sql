select count(*) - count({key}) as without_key, count({key}) - count(distinct {key}) as repeated from {view} as v
