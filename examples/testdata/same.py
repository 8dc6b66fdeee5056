"""Compares an export as Parquet, read by pyarrow and by DuckDB, with one as ndjson in base64, record by record."""

import base64
import json
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

parquet, ndjson = Path(sys.argv[1]), Path(sys.argv[2])


def binary(text):
    return None if text is None else base64.b64decode(text)


want = []
for path in sorted(ndjson.glob("*.ndjson")):
    for line in path.open("rb"):
        r = json.loads(line)
        r["key"], r["value"] = binary(r["key"]), binary(r["value"])
        r["headers"] = [{"key": h["key"], "value": binary(h["value"])} for h in r["headers"]]
        want.append(r)

tables = [pq.read_table(path) for path in parquet.glob("*.parquet")]
table = pa.concat_tables(tables)
assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC"), table.schema
assert table.schema.field("offset").type == pa.int64() and table.schema.field("value").type == pa.binary(), table.schema
table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", table["timestamp"].cast(pa.int64()))
got = sorted(table.to_pylist(), key=lambda r: (r["partition"], r["offset"]))
assert got == want, next((g, w) for g, w in zip(got, want) if g != w)

rows = duckdb.sql(f"""
    SELECT partition, "offset", epoch_ms(timestamp), timestamp_type, key, value, headers, leader_epoch, topic
    FROM read_parquet('{parquet}/*.parquet') ORDER BY partition, "offset" """).fetchall()
fields = ["partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch", "topic"]
assert [dict(zip(fields, row)) for row in rows] == want
print(len(want), "records are the same")
