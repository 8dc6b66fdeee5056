package gateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"coldtap/fetch"
)

const eventType = "text/event-stream"

func TestEvents(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a\nb"), last: true}, fakeRecord{rec: record(11, "b")})
	got := r.get(t, recordsPath+"?offset=10", "Accept", eventType)
	want := "id: 11\nevent: record\ndata: {\"topic\":\"orders\",\"partition\":3,\"offset\":10,\"timestamp\":1700000000010,\"timestamp_type\":\"CREATE_TIME\",\"key\":\"k\",\"value\":\"a\\nb\",\"headers\":[],\"leader_epoch\":2}\n\n" +
		"id: 12\nevent: record\ndata: {\"topic\":\"orders\",\"partition\":3,\"offset\":11,\"timestamp\":1700000000011,\"timestamp_type\":\"CREATE_TIME\",\"key\":\"k\",\"value\":\"b\",\"headers\":[],\"leader_epoch\":2}\n\n" +
		"id: 12\nevent: end\ndata: {\"end\":\"tier\",\"next_offset\":12,\"records\":2}\n\n"
	if got.StatusCode != 200 || got.body != want || got.Header.Get("Content-Type") != eventType || got.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v\n%s\n%s", got.StatusCode, got.Header, got.body, want)
	}
}

func TestEventSourceGoesOnWhereItStopped(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(42, "a")})
	got := r.get(t, recordsPath+"?offset=10&end_offset=50", "Accept", eventType, "Last-Event-ID", "42")
	if got.StatusCode != 200 || r.fake.asked.Offset != 42 || r.fake.asked.Start != fetch.FromOffset || r.fake.asked.EndOffset != 50 {
		t.Errorf("%d, asked %+v", got.StatusCode, r.fake.asked)
	}
	if r.get(t, recordsPath+"?timestamp=10", "Accept", eventType, "Last-Event-ID", "42"); r.fake.asked.Offset != 42 || r.fake.asked.Start != fetch.FromOffset {
		t.Errorf("asked %+v", r.fake.asked)
	}
	if r.get(t, recordsPath+"?offset=10", "Last-Event-ID", "42"); r.fake.asked.Offset != 10 {
		t.Errorf("another format: asked %+v", r.fake.asked)
	}
	for id, want := range map[string]string{"x": `"parameter":"Last-Event-ID"`, "-1": `"parameter":"Last-Event-ID"`, "51": `42201`} {
		if got := r.get(t, recordsPath+"?offset=10&end_offset=50", "Accept", eventType, "Last-Event-ID", id); !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", id, got.StatusCode, got.body)
		}
	}
	// An event source comes back until an answer says that there is nothing more; a client that begins gets its end event.
	r.records()
	if got := r.get(t, recordsPath+"?offset=10", "Accept", eventType); got.StatusCode != 200 || !strings.HasPrefix(got.body, "id: 10\nevent: end\n") {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if got := r.get(t, recordsPath+"?offset=10", "Accept", eventType, "Last-Event-ID", "10"); got.StatusCode != 204 || got.body != "" || got.Header.Get("X-Kafka-End") != "tier" {
		t.Errorf("%d %v %q", got.StatusCode, got.Header, got.body)
	}
	if got := r.get(t, "/topics"); got.StatusCode != 200 {
		t.Errorf("the connection afterwards: %d", got.StatusCode)
	}
}

func TestEventsBreakWithAnErrorEvent(t *testing.T) {
	r := newHarness(t)
	r.fake.open = endless(r, 10, 10_000, func(i int64) error {
		if i == 105 {
			return &fetch.Error{Kind: fetch.Unreachable, Position: -1, NextOffset: -1}
		}
		return nil
	})
	got := r.get(t, recordsPath+"?offset=0", "Accept", eventType)
	events := strings.Split(strings.TrimSuffix(got.body, "\n\n"), "\n\n")
	last := events[len(events)-1]
	if !errors.Is(got.err, io.ErrUnexpectedEOF) || len(events) != 106 || !strings.HasPrefix(last, "id: 105\nevent: error\ndata: {\"error_code\":50303,") || !strings.HasSuffix(last, `"next_offset":105}`) {
		t.Errorf("%d events, last %q, %v", len(events), last, got.err)
	}
}

// TestStreamsReportCostAndNextPageInTrailers: what is known only at the end is not lost.
func TestStreamsReportCostAndNextPageInTrailers(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.LookAhead = 1000 })
	r.fake.stats = fetch.Stats{ChunksMem: 1, ChunksMissed: 2, StoreRequests: 3, StoreBytes: 4096}
	for _, accept := range []string{rawType, "application/x-ndjson", eventType} {
		r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
			s := r.stream(10, 10)
			s.end = fetch.EndLimit
			s.runs = []fakeRun{{data: batch(5000, 'a'), next: 20}, {data: batch(70000, 'b'), next: 30}}
			s.records = []fakeRecord{{rec: record(10, "a"), last: true}, {rec: record(29, "b")}}
			return s, nil
		}
		got := r.get(t, recordsPath+"?offset=10&max_bytes=7000000", "Accept", accept)
		if got.err != nil || got.ContentLength != -1 {
			t.Fatalf("%s: %d %v", accept, got.ContentLength, got.err)
		}
		for name, want := range map[string]string{"X-Kafka-Next-Offset": "30", "X-Kafka-End": "limit", "Link": "<" + recordsPath + `?offset=30&max_bytes=7000000>; rel="next"`,
			"X-Cache": "MEM,MISS", "X-Store-Requests": "3", "X-Store-Bytes": "4096"} {
			if got.Trailer.Get(name) != want {
				t.Errorf("%s: trailer %s: %q, want %q", accept, name, got.Trailer.Get(name), want)
			}
		}
		if !strings.HasPrefix(got.Trailer.Get("Server-Timing"), "resolve;dur=0.000, index;dur=0.000, store;dur=0.000, filter;dur=") {
			t.Errorf("%s: %q", accept, got.Trailer.Get("Server-Timing"))
		}
	}
}
