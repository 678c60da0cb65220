insert into nao.data_validation (suite, suite_version, input_key, expectations, failed, seconds, results)
values (%(suite)s, %(suite_version)s, %(input_key)s, %(expectations)s, %(failed)s, %(seconds)s, %(results)s)
returning validated_at
