create schema if not exists cong
