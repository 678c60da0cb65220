-- DuckDB. The same day without the events that break the contract. Left to itself DuckDB would read the day's folder as a column.
copy (select * from read_parquet($source, hive_partitioning = false) where event_id not in (select unnest($event_ids::uuid[])))
to $file (format parquet, compression zstd, kv_metadata {'threadhouse.day_digest': $digest})
