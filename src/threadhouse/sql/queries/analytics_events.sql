-- DuckDB. The lake's files as they are when somebody looks.
create view events as
select * from read_parquet({files}, hive_partitioning = true, hive_types = {{'local_day': date}})
