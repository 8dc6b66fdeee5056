"""Reads a range of a partition into a pandas DataFrame: one record a line (ndjson), without a limit of size because the range
has an end.

    pip install pandas
    python examples/python/read.py http://127.0.0.1:8080 plain 0 100 200
"""

import sys

import pandas as pd

base, topic, partition, start, end = sys.argv[1:]
url = f"{base}/topics/{topic}/partitions/{partition}/records?offset={start}&end_offset={end}&format=ndjson"
records = pd.read_json(url, lines=True, dtype=False)
records["timestamp"] = pd.to_datetime(records["timestamp"], unit="ms", utc=True)
print(records[["offset", "timestamp", "key"]].to_string(index=False))
print(f"{len(records)} records, offsets {records.offset.min()} to {records.offset.max()}")
