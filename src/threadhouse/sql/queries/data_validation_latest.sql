select distinct on (suite) suite, suite_version, expectations, failed, seconds, results, validated_at
from nao.data_validation
where suite_version = %(suite_version)s
order by suite, validated_at desc
