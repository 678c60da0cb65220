-- Whether a thread that was just written is one that readers get: an attached hub may keep its threads elsewhere.
select exists (select from source.semantic_thread where thread_id = %(thread_id)s)
