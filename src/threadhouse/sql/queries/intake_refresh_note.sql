insert into nao.intake_refresh (questions_digest) values (%(questions_digest)s)
on conflict (is_only) do update set questions_digest = excluded.questions_digest, refreshed_at = clock_timestamp()
