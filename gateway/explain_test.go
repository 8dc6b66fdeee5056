package gateway

import (
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"
)

func TestExplain(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.GetPrice, c.TransferPrice = 0.4, 2 })
	id := segment.UUID{7}
	r.fake.plan = &fetch.Plan{Topic: "orders", TopicID: id, Start: 12, Bounds: fetch.Bounds{Start: 5, LocalStart: -1, TieredEnd: 40, LastStable: -1, HighWatermark: -1},
		Segments: []fetch.PlanSegment{
			{Segment: &tier.Segment{ID: id, BaseOffset: 10, EndOffset: 19}, From: 100, To: 8192, Chunk: 4096, LastChunk: 1, InMemory: 1, Missing: 1, Requests: 1, Bytes: 4096},
			{Segment: &tier.Segment{ID: id, BaseOffset: 20, EndOffset: 39}, From: 0, To: 4000, Chunk: 4096, Missing: 1, Requests: 2, Bytes: 1<<29 - 4096},
		}, Stats: fetch.Stats{StoreRequests: 1, StoreBytes: 77}}
	const want = `{"kind":"ReadPlan","topic":"orders","topic_id":"BwAAAAAAAAAAAAAAAAAAAA","partition":3,"start_offset":12,"log_start_offset":5,"tiered_end_offset":40,"lane":"bulk","segments":[` +
		`{"id":"BwAAAAAAAAAAAAAAAAAAAA","base_offset":10,"last_offset":19,"first_byte":100,"last_byte":8191,"chunk_bytes":4096,"chunks":{"MEM":1,"MISS":1},"store_requests":1,"store_bytes":4096},` +
		`{"id":"BwAAAAAAAAAAAAAAAAAAAA","base_offset":20,"last_offset":39,"first_byte":0,"last_byte":3999,"chunk_bytes":4096,"chunks":{"MEM":0,"MISS":1},"store_requests":2,"store_bytes":536866816}],` +
		`"more_segments":false,"chunks":{"MEM":1,"MISS":2},"store_requests":3,"store_bytes":536870912,"estimated_cost":`
	for _, accept := range []string{"", "application/json", rawType} {
		got := r.get(t, recordsPath+"?timestamp=5&lane=bulk&explain=true", "Accept", accept)
		if got.StatusCode != 200 || got.body != want+"1.0012}\n" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("X-Store-Requests") != "1" || got.Header.Get("X-Store-Bytes") != "77" {
			t.Errorf("%d %v\n%s\n%s", got.StatusCode, got.Header, got.body, want)
		}
	}
	if r.fake.asked.Start != fetch.FromTimestamp || r.fake.asked.Lane != readerpool.Bulk {
		t.Errorf("asked %+v", r.fake.asked)
	}
	free := newHarness(t)
	free.fake.plan = &fetch.Plan{Bounds: fetch.Bounds{Start: -1, LocalStart: -1, TieredEnd: -1, LastStable: -1, HighWatermark: -1}}
	if got := free.get(t, recordsPath+"?offset=5&explain=true"); got.StatusCode != 200 || got.body != `{"kind":"ReadPlan","topic":"","topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partition":3,"start_offset":0,`+
		`"log_start_offset":null,"tiered_end_offset":null,"lane":"interactive","segments":[],"more_segments":false,"chunks":{"MEM":0,"MISS":0},"store_requests":0,"store_bytes":0,"estimated_cost":null}`+"\n" {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	free.fake.err = &fetch.Error{Kind: fetch.OutOfRange}
	if got := free.get(t, recordsPath+"?offset=5&explain=true"); got.StatusCode != 416 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestCostOfTheRealRead holds the plan, the headers and the validator of a read against each other and the cache.
func TestCostOfTheRealRead(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	r.addEndless(t, 1<<20)
	query := "?offset=0&end_offset=3000&max_bytes=190000"
	plan := func() string {
		got := r.get(t, endlessPath+query+"&explain=true")
		if got.StatusCode != 200 {
			t.Fatalf("%d %s", got.StatusCode, got.body)
		}
		return got.body
	}
	if p := plan(); !strings.Contains(p, `,"chunks":{"MEM":0,"MISS":`) || strings.Contains(p, `"store_requests":0,"store_bytes":0,"estimated_cost"`) {
		t.Errorf("%s", p)
	}
	first := r.get(t, endlessPath+query)
	if first.StatusCode != 200 || !strings.HasSuffix(first.Header.Get("X-Cache"), "MISS") || first.Header.Get("X-Store-Requests") == "0" || first.Header.Get("X-Store-Bytes") == "0" {
		t.Errorf("%d %v", first.StatusCode, first.Header)
	}
	second := r.get(t, endlessPath+query)
	if second.Header.Get("X-Cache") != "MEM" || second.Header.Get("X-Store-Requests") != "0" || second.Header.Get("X-Store-Bytes") != "0" || second.body != first.body {
		t.Errorf("%v", second.Header)
	}
	if p := plan(); !strings.Contains(p, `"MISS":0},"store_requests":0,"store_bytes":0,"estimated_cost":null}`) {
		t.Errorf("%s", p)
	}
	tag := second.Header.Get("ETag")
	if got := r.get(t, endlessPath+query, "If-None-Match", tag); tag == "" || got.StatusCode != 304 {
		t.Errorf("%q: %d", tag, got.StatusCode)
	}
	if got := r.get(t, endlessPath+"?offset=0", "If-None-Match", tag); got.StatusCode != 200 || got.Header.Get("ETag") != "" {
		t.Errorf("without an end: %d %v", got.StatusCode, got.Header)
	}
}
