select kept_from, lake_kept_from from nao.retrieval_event_horizon
