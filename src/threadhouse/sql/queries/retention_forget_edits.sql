delete from nao.retrieval_event_edit where edited_at < now() - %(kept)s::interval
