-- Only what was corrected.
select q.ctid from nao.quarantined_item q where q.resolved_at < %(before)s
