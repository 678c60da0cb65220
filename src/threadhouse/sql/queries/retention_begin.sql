-- Until this transaction ends, what is removed leaves no trace in nao.retrieval_event_edit and reopens no day.
select set_config('threadhouse.retention', 'on', true)
