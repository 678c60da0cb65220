-- Validations, but never the last one of a suite, nor one that says last that some part was found sound: that part would be judged anew.
select v.ctid
from nao.data_validation v
where v.validated_at < %(before)s
  and exists
  ( select from nao.data_validation n
    where n.suite = v.suite and n.suite_version = v.suite_version and n.validated_at > v.validated_at )
  and (v.failed > 0 or not exists
  ( select from jsonb_object_keys(v.results -> 'parts') as part (name)
    where not exists
    ( select from nao.data_validation n
      where n.suite = v.suite and n.suite_version = v.suite_version and n.failed = 0 and n.validated_at > v.validated_at
        and n.results -> 'parts' ? part.name ) ))
