select s.row_no, 'canonical_address' as field, format('%s is the address of thread %s already', s.canonical_address, t.thread_id) as reason
from load_thread s
join public.semantic_thread t on t.canonical_address = s.canonical_address and t.thread_id <> s.thread_id
order by s.row_no
