-- DuckDB.
select * exclude (local_day) from read_parquet($files, hive_partitioning = true, hive_types = {'local_day': date}) order by ingest_seq
