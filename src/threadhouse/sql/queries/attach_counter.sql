coalesce((select r.input_revision from nao.attached_thread_revision r where r.thread_id = (a.thread_id)::text), 1) as input_revision
