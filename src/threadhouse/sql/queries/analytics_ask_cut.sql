-- DuckDB. The beginning of an answer, cut where it is made: whole values would be in memory twice, here and in Python.
select left(columns(*)::varchar, $chars) from query($statement) limit $rows
