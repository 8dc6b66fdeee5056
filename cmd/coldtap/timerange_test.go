package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"coldtap/internal/testing/testkit"
)

// TestTimeRangeOfTheSample asks the served demo for ten seconds of a topic whose timestamps are out of order.
func TestTimeRangeOfTheSample(t *testing.T) {
	data, _ := startTier(t, testConfig(t))
	const from, to = 1700000000000, 1700000010000
	var inRange, beforeLate []testkit.Record
	late := false
	for _, r := range testkit.Expected(t, "plain-0", "read_committed") {
		late = late || r.Timestamp >= to
		if r.Timestamp >= from && r.Timestamp < to {
			if inRange = append(inRange, r); !late {
				beforeLate = append(beforeLate, r)
			}
		}
	}
	if len(inRange) != 7 || len(beforeLate) == 7 {
		t.Fatalf("the sample has changed: %d records, %d in order", len(inRange), len(beforeLate))
	}
	for lateness, want := range map[string][]testkit.Record{"24h": inRange, "0s": beforeLate, "": beforeLate} {
		query := url.Values{"timestamp": {"1700000000000"}, "end_timestamp": {"1700000010000"}}
		if lateness != "" {
			query.Set("lateness", lateness)
		}
		a := read(t, data, "plain-0", query)
		compare(t, "lateness "+lateness, a.records, want)
		query.Del("encoding")
		query.Del("summary")
		_, body := get(t, data+"/topics/plain/partitions/0/records?"+query.Encode(), "")
		var list struct {
			Metadata struct{ End, Lateness string }
			Data     []json.RawMessage
		}
		if err := json.Unmarshal(body, &list); err != nil || len(list.Data) != len(want) || list.Metadata.Lateness != max(lateness, "0s") ||
			list.Metadata.End != a.end || lateness != "24h" && a.end != "range" {
			t.Errorf("lateness %q: %v %s", lateness, err, body)
		}
	}
	// Epoch seconds of that time.
	for _, path := range []string{"records?timestamp=1700000400", "records?offset=0&end_timestamp=1700000400", "records?offset=0&start_timestamp=1700000400",
		"offsets?timestamp=1700000400"} {
		resp, body := get(t, data+"/topics/plain/partitions/0/"+path, "")
		if resp.StatusCode != 400 || !strings.Contains(string(body), `"error_code":40001`) || !strings.Contains(string(body), "were seconds meant") {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
		for _, meant := range []string{"1700000400ms", "1700000400000", "0", "2023-11-14T22:20:00Z", "2023-11-14+22:20:00", "2023-11-14"} {
			if resp, body := get(t, data+"/topics/plain/partitions/0/"+strings.Replace(path, "1700000400", meant, 1), ""); resp.StatusCode != 200 {
				t.Errorf("%s with %s: %s %s", path, meant, resp.Status, body)
			}
		}
	}
}
