select set_config('lock_timeout', %(lock_timeout)s, true), set_config('search_path', 'public', true)
