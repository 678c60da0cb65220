-- Threads that changed since their packs were built, and those that are gone and have left packs behind.
select t.thread_id
from source.semantic_thread t left join nao.pack_state_in_force s using (thread_id)
where s.input_revision is distinct from t.input_revision
union
select s.thread_id
from nao.thread_pack_state s
where not exists (select from source.semantic_thread t where t.thread_id = s.thread_id)
