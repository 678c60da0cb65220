-- A new version: every row of the one in force, with the row of one space put in or replaced.
with latest as
( select coalesce(max(policy_version), 0) as policy_version from cong.retrieval_policy )
, in_force as
( select max(policy_version) as policy_version from cong.retrieval_policy where activated_at <= statement_timestamp() )
insert into cong.retrieval_policy
( policy_version, space_id, coefficients, scales, ranking, single_threshold, match_threshold, candidate_floor, candidate_limit, fitted_on )
select latest.policy_version + 1, %(space_id)s, %(coefficients)s::jsonb, %(scales)s::jsonb, %(ranking)s::jsonb
     , %(single_threshold)s, %(match_threshold)s, %(candidate_floor)s, %(candidate_limit)s, %(fitted_on)s::jsonb
from latest
union all
select latest.policy_version + 1, p.space_id, p.coefficients, p.scales, p.ranking
     , p.single_threshold, p.match_threshold, p.candidate_floor, p.candidate_limit, p.fitted_on
from latest, in_force
join cong.retrieval_policy p on p.policy_version = in_force.policy_version
where p.space_id <> %(space_id)s
returning policy_version
