drop schema if exists attached
