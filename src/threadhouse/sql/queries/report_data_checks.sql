-- The last result of each suite of expectations.
select distinct on (suite) suite, expectations, failed, validated_at
from nao.data_validation
order by suite, validated_at desc
