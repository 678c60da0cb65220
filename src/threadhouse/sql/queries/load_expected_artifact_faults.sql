select s.row_no, 'thread_id' as field, format('thread %s is not loaded', s.thread_id) as reason
from load_expected_artifact s
where not exists (select from public.semantic_thread t where t.thread_id = s.thread_id)
