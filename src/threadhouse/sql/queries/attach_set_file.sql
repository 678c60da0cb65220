select set_config('threadhouse.attached_file', %(body)s, true), set_config('lock_timeout', %(lock_timeout)s, true)
