-- DuckDB. An answer as it is; as a subquery its columns have different names.
from query($statement)
