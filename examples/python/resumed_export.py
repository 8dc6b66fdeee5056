"""Writes a range of a partition to a file of ndjson, and goes on where it was interrupted: the file itself says how far it is.
`coldtap export` does this for whole topics and in more formats; this shows how little a client needs for it.

    python examples/python/resumed_export.py http://127.0.0.1:8080 plain 0 100 500 plain.ndjson
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

base, topic, partition, start, end, path = sys.argv[1:]
start, end = int(start), int(end)


def resume(file):
    """Cuts a line off that is not whole, and gives the offset behind the last one that is."""
    next_offset, size = start, 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        next_offset, size = json.loads(line)["offset"] + 1, size + len(line)
    file.truncate(size)
    file.seek(size)
    return next_offset


def copy(file, offset):
    """Appends records from an offset on, and says why the answer ended: the last line of a summary tells."""
    url = f"{base}/topics/{topic}/partitions/{partition}/records?offset={offset}&end_offset={end}&format=ndjson&summary=true"
    with urllib.request.urlopen(url, timeout=60) as answer:
        for line in answer:
            if not line.startswith(b'{"topic":'):
                return json.loads(line)
            file.write(line)
    raise http.client.IncompleteRead(b"")  # no summary: the answer was cut


with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
    for attempt in range(10):
        try:
            last = copy(file, resume(file))
            if "error_code" not in last:
                break
            print(last["message"], file=sys.stderr)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                sys.exit(f"{error}: {error.read().decode(errors='replace')}")
            print(error, file=sys.stderr)
        file.flush()
        file.seek(0)
        time.sleep(min(2**attempt, 30))
    else:
        sys.exit("given up; run it again to go on")
if last["end"] != "range" and last["next_offset"] < end:
    sys.exit(f"not all of it is in the tier: it ended with {last['end']} at offset {last['next_offset']}")
print(f"{path} has everything before offset {end}")
