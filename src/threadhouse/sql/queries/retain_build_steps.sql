select s.ctid from nao.build_step s where s.finished_at < %(before)s
