select b.ctid from nao.decision_backlog_item b where b.status in ('done', 'rejected') and b.updated_at < %(before)s
