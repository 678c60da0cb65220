-- Who put the version in force, and when.
select applied_by, applied_at from cong.audience_policy_change where policy_version = %(policy_version)s
