select set_config('lock_timeout', %(milliseconds)s, false)
