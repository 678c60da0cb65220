-- Only what vectors had learned before the refresh began: a revoke that came in between waits for the next refresh.
-- A refresh of some threads speaks for an owner when no thread that can show it is behind with its packs.
update nao.revocation_wait w
set packs_agreed_at = clock_timestamp()
where packs_agreed_at is null
  and vectors_agreed_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
  and ( not %(is_scoped)s
     or not exists
        ( select
          from unnest(nao.threads_near
          ( case when w.collection = 'information_units' then array[w.owner_id] else '{}' end
          , case when w.collection = 'production_documents' then array[w.owner_id] else '{}' end
          , '{}' )) as near (thread_id)
          join source.semantic_thread t using (thread_id)
          left join nao.pack_state_in_force s using (thread_id)
          where s.input_revision is distinct from t.input_revision ) )
