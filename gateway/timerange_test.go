package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/testkit"
	"coldtap/segment"
)

// TestTimeRangePages follows the next pages of a range of time in every format and holds them against a filter over
// what Kafka's own consumer read.
func TestTimeRangePages(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	end := r.addSample(t, segment.UUID{1}, "plain-0")
	const from, to = 1_700_000_000_000, 1_700_000_010_000
	for lateness, text := range map[int64]string{0: "0s", 90_000: "90s", 86_400_000: "24h"} {
		var want []int64
		for _, rec := range testkit.Expected(t, "plain-0", "read_committed") {
			if rec.Offset >= end || rec.Timestamp >= to+lateness {
				break
			}
			if rec.Timestamp >= from && rec.Timestamp < to {
				want = append(want, rec.Offset)
			}
		}
		if (len(want) == 7) != (lateness > 0) {
			t.Fatalf("%d records within %s", len(want), text)
		}
		// The query as a client may write it; text is how answers name the lateness.
		first := fmt.Sprintf("/topics/plain/partitions/0/records?max_bytes=4000&timestamp=%d&end_timestamp=2023-11-14+22:13:30Z", from)
		if lateness > 0 {
			first += fmt.Sprintf("&lateness=%dms", lateness)
		}
		for _, accept := range []string{"application/json", "application/x-ndjson", eventType, binaryV2, rawType} {
			var got []int64
			pages, why := 0, "limit"
			start := first
			if accept != binaryV2 {
				start += "&encoding=base64"
			}
			for path := start; path != ""; pages++ {
				answer := r.get(t, path, "Accept", accept, "Accept-Encoding", "identity")
				if answer.StatusCode != 200 || answer.err != nil || answer.Header.Get("X-Kafka-Lateness") != text {
					t.Fatalf("%s: %d %v %v %.300s", path, answer.StatusCode, answer.err, answer.Header, answer.body)
				}
				if accept == rawType {
					got = append(got, offsetsBetween(t, []byte(answer.body), from, to)...)
					why = answer.Header.Get("X-Kafka-End") + answer.Trailer.Get("X-Kafka-End")
				} else {
					var records []shownRecord
					records, _, why = page(t, accept, answer)
					for _, rec := range records {
						got = append(got, rec.Offset)
					}
				}
				if accept == "application/json" || accept == eventType {
					if want := fmt.Sprintf(`"end":"%s","lateness":"%s"`, why, text); !strings.Contains(answer.body, want) {
						t.Fatalf("%s: no %s in %s", path, want, answer.body)
					}
				}
				if path = nextPage(answer); path != "" && !strings.Contains(path, fmt.Sprintf("&start_timestamp=%d&end_timestamp=2023-11-14+22:13:30Z", from)) {
					t.Fatalf("the next page is %s", path)
				}
			}
			if why != "range" && why != "tier" || !slices.Equal(got, want) {
				t.Errorf("%s, lateness %s: %v, end %s, want %v", accept, text, got, why, want)
			}
			if lateness == 86_400_000 && pages < 2 {
				t.Errorf("%s: %d pages", accept, pages)
			}
		}
		// A reconnecting event stream keeps the range, wherever it was cut.
		for _, id := range append([]int64{0}, want...) {
			answer := r.get(t, strings.Replace(first, "max_bytes=4000", "encoding=base64", 1), "Accept", eventType, "Last-Event-ID", fmt.Sprint(id+1))
			var got []int64
			if answer.StatusCode == 200 {
				records, _, _ := page(t, eventType, answer)
				for _, rec := range records {
					got = append(got, rec.Offset)
				}
			}
			rest := want[len(want):]
			if i := slices.IndexFunc(want, func(o int64) bool { return o > id }); i >= 0 {
				rest = want[i:]
			}
			if !slices.Equal(got, rest) {
				t.Errorf("after event %d: %v, want %v", id+1, got, rest)
			}
		}
	}
}

// nextPage gives the address of the Link header, wherever it stands.
func nextPage(answer reply) string {
	link := answer.Header.Get("Link") + answer.Trailer.Get("Link")
	address, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	return address
}

// offsetsBetween decodes whole batches and gives the offsets of the records in a range of time, as a raw client must.
func offsetsBetween(t *testing.T, batches []byte, from, to int64) (offsets []int64) {
	t.Helper()
	d := segment.NewDecoder(1<<30, nil)
	defer d.Close()
	for len(batches) > 0 {
		h, err := segment.ParseHeader(batches, int64(len(batches)))
		if err == nil {
			err = d.Open(batches[:h.Size()])
		}
		var rec segment.Record
		for more := err == nil; more; {
			if more, err = d.Next(&rec); more && rec.Timestamp >= from && rec.Timestamp < to {
				offsets = append(offsets, rec.Offset)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		batches = batches[h.Size():]
	}
	return offsets
}

// TestTimeRangeParameters: what belongs together, and what fetch is asked.
func TestTimeRangeParameters(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")})
	for _, c := range []struct {
		query     string
		code      int
		parameter string
	}{
		{"offset=1&start_timestamp=5", 0, ""},
		{"offset=1&start_timestamp=5&end_timestamp=5&lateness=0", 0, ""},
		{"offset=1&end_timestamp=5&lateness=1h30m", 0, ""},
		{"timestamp=5&end_timestamp=6&lateness=1.5ms", 0, ""},
		{"offset=1&start_timestamp=5&end_timestamp=4", 42201, ""},
		{"timestamp=5&end_timestamp=4", 42201, ""},
		{"timestamp=5&start_timestamp=5", 40001, "start_timestamp"},
		{"offset=1&start_timestamp=5&start_timestamp=5", 40001, "start_timestamp"},
		{"offset=1&start_timestamp=soon", 40001, "start_timestamp"},
		{"offset=1&lateness=1h", 40001, "lateness"},
		{"timestamp=1&lateness=1h", 40001, "lateness"},
		{"offset=1&end_timestamp=5&lateness=-1s", 40001, "lateness"},
		{"offset=1&end_timestamp=5&lateness=5", 40001, "lateness"},
		{"offset=1&end_timestamp=5&lateness=1d", 40001, "lateness"},
		{"offset=1&end_timestamp=5&lateness=99999999h", 40001, "lateness"},
		{"offset=1&end_timestamp=5&lateness=", 40001, "lateness"},
	} {
		got := r.get(t, recordsPath+"?"+c.query)
		if c.code == 0 && got.StatusCode != 200 || c.code > 0 && !strings.HasPrefix(got.body, fmt.Sprintf(`{"error_code":%d,`, c.code)) ||
			c.parameter != "" && !strings.Contains(got.body, `"parameter":"`+c.parameter+`"`) {
			t.Errorf("%s: %d %s", c.query, got.StatusCode, got.body)
		}
	}
	r.get(t, recordsPath+"?timestamp=5&end_timestamp=6&lateness=1.0001s")
	if a := r.fake.asked; a.Timestamp != 5 || !a.HasStartTimestamp || a.StartTimestamp != 5 || a.EndTimestamp != 6 || a.Lateness != 1001 {
		t.Errorf("%+v", a)
	}
	if r.get(t, recordsPath+"?timestamp=5"); r.fake.asked.HasStartTimestamp {
		t.Error("a start by time alone is no filter")
	}
	r.fake.span = [2]int64{1_690_000_000_000, 1_700_000_000_000}
	if got := r.get(t, recordsPath+"?offset=1&start_timestamp=1695000000"); !strings.Contains(got.body, `"parameter":"start_timestamp"`) {
		t.Errorf("%s", got.body)
	}
	for ms, text := range map[int64]string{0: "0s", 1: "1ms", 1500: "1500ms", 90_000: "90s", 5_400_000: "90m", 86_400_000: "24h"} {
		if got := latenessText(ms); got != text {
			t.Errorf("%d: %s", ms, got)
		}
		if back, err := lateness([]byte(text)); err != nil || back != ms {
			t.Errorf("%s: %d %v", text, back, err)
		}
	}
}

// TestExplainStatesThePromiseOfARange: the plan says what end range means for this request.
func TestExplainStatesThePromiseOfARange(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	r.addSample(t, segment.UUID{1}, "plain-0")
	var plan struct {
		Range *struct {
			Start   *int64 `json:"start_timestamp"`
			End     *int64 `json:"end_timestamp"`
			Late    string `json:"lateness"`
			Promise string
		} `json:"time_range"`
	}
	ask := func(query string) {
		plan.Range = nil
		got := r.get(t, "/topics/plain/partitions/0/records?explain=true&"+query)
		if err := json.Unmarshal([]byte(got.body), &plan); err != nil || got.StatusCode != 200 {
			t.Fatalf("%v %s", err, got.body)
		}
	}
	if ask("offset=0"); plan.Range != nil {
		t.Errorf("%+v", plan.Range)
	}
	if ask("offset=0&end_timestamp=1700000010000"); plan.Range == nil || plan.Range.Start != nil || plan.Range.Late != "0s" {
		t.Errorf("%+v", plan.Range)
	}
	ask("timestamp=1700000000000&end_timestamp=1700000010000&lateness=60m")
	if p := plan.Range; p == nil || *p.Start != 1700000000000 || *p.End != 1700000010000 || p.Late != "1h" || !strings.Contains(p.Promise, "out of order") {
		t.Errorf("%+v", p)
	}
}
