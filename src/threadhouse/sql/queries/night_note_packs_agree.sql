-- Only what vectors had learned before the refresh began: a revoke that came in between waits for the next refresh.
update nao.revocation_wait
set packs_agreed_at = clock_timestamp()
where packs_agreed_at is null and vectors_agreed_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
