"""Asks SQL of an export: the Parquet files have typed columns, and of ndjson DuckDB finds the types itself.

    pip install duckdb
    bin/coldtap export plain --format parquet --out plain-export
    python examples/duckdb/query.py plain-export
"""

import sys
from pathlib import Path

import duckdb

folder = Path(sys.argv[1])
source = f"read_parquet('{folder}/*.parquet')" if any(folder.glob("*.parquet")) else f"read_ndjson('{folder}/*.ndjson')"

print(duckdb.sql(f"DESCRIBE SELECT * FROM {source}"))
print(duckdb.sql(f"""
    SELECT partition, count(*) AS records, min("offset") AS first_offset, max("offset") AS last_offset,
           count(key) AS with_key, sum(len(headers)) AS headers
    FROM {source} GROUP BY partition ORDER BY partition"""))
