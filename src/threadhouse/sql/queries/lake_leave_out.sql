-- DuckDB. The same day without the events that break the contract.
copy (select * from read_parquet($source) where event_id not in (select unnest($event_ids::uuid[])))
to $file (format parquet, compression zstd, kv_metadata {'threadhouse.day_digest': $digest})
