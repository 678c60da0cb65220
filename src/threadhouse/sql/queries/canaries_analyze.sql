-- The planner believes that tables hold what they held when they were last looked at; a hub of a few rows has just been given thousands.
analyze public.production_document, public.tac_logical_unit, public.tac_unit_version, public.semantic_thread
      , public.thread_membership, public.universal_edge, nao.vector_projection
