-- Real published units that a lane does not see, others every day; the lane's rights are those without any claim.
select i.logical_unit_id, p.version_key, i.title
from nao.vector_projection p
join source.information_unit i on i.logical_unit_id = p.owner_id and i.unit_version_id::text = p.version_key
where p.physical = %(physical)s and p.chunk_count > 0
  and not cong.sees(i.visibility, i.readiness, i.publication_state, i.risk_class, i.authority, i.lifecycle_stage, i.data_classification
    , (select cong.allowed_by_policy(%(lane)s, '{}')))
order by md5(i.logical_unit_id || %(day)s::date)
limit %(limit)s
