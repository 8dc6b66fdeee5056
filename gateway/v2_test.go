package gateway

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/readerpool"
	"coldtap/segment"
)

const (
	binaryV2 = "application/vnd.kafka.binary.v2+json"
	jsonV2   = "application/vnd.kafka.json.v2+json"
	textV2   = "application/vnd.kafka.text.v2+json"
)

func TestArraysOfRecords(t *testing.T) {
	r := newHarness(t)
	nulls := record(12, "")
	nulls.Key, nulls.Value = nil, nil
	r.records(fakeRecord{rec: record(10, `{"a": 1}`)}, fakeRecord{rec: nulls, last: true})
	for _, c := range []struct{ accept, key, value string }{
		{binaryV2, `"aw=="`, `"eyJhIjogMX0="`},
		{jsonV2, `"k"`, `{"a":1}`},
		{textV2, `"k"`, `"{\"a\": 1}"`},
	} {
		got := r.get(t, recordsPath+"?offset=10", "Accept", c.accept)
		want := `[{"topic":"orders","partition":3,"offset":10,"timestamp":1700000000010,"timestamp_type":"CREATE_TIME","key":` + c.key + `,"value":` + c.value + `,"headers":[],"leader_epoch":2},` +
			`{"topic":"orders","partition":3,"offset":12,"timestamp":1700000000012,"timestamp_type":"CREATE_TIME","key":null,"value":null,"headers":[],"leader_epoch":2}]` + "\n"
		if got.body != want || got.Header.Get("Content-Type") != c.accept || got.Header.Get("X-Kafka-Next-Offset") != "13" || got.Header.Get("X-Kafka-End") != "tier" {
			t.Errorf("%s: %d %v\n%s\n%s", c.accept, got.StatusCode, got.Header, got.body, want)
		}
		if got := r.get(t, recordsPath+"?offset=10&encoding=json", "Accept", c.accept); got.StatusCode != 400 || !strings.Contains(got.body, `"parameter":"encoding"`) {
			t.Errorf("%s with an encoding: %d %s", c.accept, got.StatusCode, got.body)
		}
	}
	r.records()
	if got := r.get(t, recordsPath+"?offset=10", "Accept", jsonV2); got.body != "[]\n" || got.StatusCode != 200 {
		t.Errorf("nothing: %d %q", got.StatusCode, got.body)
	}
}

// TestUnrepresentableRecordEndsThePageAndIsNamed: what can be given is, and the request that begins with it is refused.
func TestUnrepresentableRecordEndsThePageAndIsNamed(t *testing.T) {
	for accept, value := range map[string]string{jsonV2: "{oops", textV2: "\xff"} {
		r := newHarness(t)
		r.records(fakeRecord{rec: record(10, `1`)}, fakeRecord{rec: record(11, value)}, fakeRecord{rec: record(12, `2`)})
		got := r.get(t, recordsPath+"?offset=10&max_bytes=99", "Accept", accept)
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list) != 1 || got.Header.Get("X-Kafka-Next-Offset") != "11" ||
			got.Header.Get("Link") != "<"+recordsPath+`?offset=11&max_bytes=99>; rel="next"` {
			t.Errorf("%s: %v %v %s", accept, err, got.Header, got.body)
		}
		r.records(fakeRecord{rec: record(11, value)})
		got = r.get(t, recordsPath+"?offset=11", "Accept", accept)
		if got.StatusCode != 422 || !strings.HasPrefix(got.body, `{"error_code":42203,`) || !strings.HasSuffix(got.body, `,"offset":11}`+"\n") {
			t.Errorf("%s: %d %s", accept, got.StatusCode, got.body)
		}
	}
}

func TestMessages(t *testing.T) {
	const path = "/topics/orders/partitions/3/messages"
	r := newHarness(t)
	r.fake.open = endless(r, 10, 10, nil)
	for _, c := range []struct{ accept, mediaType string }{
		{"", binaryV2}, {"*/*", binaryV2}, {"application/json", "application/json"}, {jsonV2 + ";q=0.5, " + textV2, textV2},
		{"application/vnd.kafka.binary.v1+json", "application/vnd.kafka.binary.v1+json"}, {"application/vnd.kafka.v2+json", "application/vnd.kafka.v2+json"},
		{"application/vnd.kafka.v1+json, application/json;q=0.5", "application/vnd.kafka.v1+json"},
	} {
		r.records(fakeRecord{rec: record(10, "a")})
		got := r.get(t, path+"?offset=10&count=5", "Accept", c.accept)
		if got.StatusCode != 200 || got.Header.Get("Content-Type") != c.mediaType || !strings.HasPrefix(got.body, `[{"topic":"orders",`) || r.fake.asked.MaxRecords != 5 {
			t.Errorf("%q: %d %v %s, asked %+v", c.accept, got.StatusCode, got.Header, got.body, r.fake.asked)
		}
	}
	for mediaType, want := range map[string]string{"application/vnd.kafka.json.v1+json": `"key":"k","value":{"a":1}`, "application/vnd.kafka.binary.v1+json": `"key":"aw==","value":"eyJhIjoxfQ=="`} {
		r.records(fakeRecord{rec: record(10, `{"a":1}`)})
		if got := r.get(t, path+"?offset=10", "Accept", mediaType); got.Header.Get("Content-Type") != mediaType || !strings.Contains(got.body, want) {
			t.Errorf("%s: %v %s", mediaType, got.Header, got.body)
		}
	}
	if r.get(t, path+"?offset=10"); r.fake.asked.MaxRecords != 1 {
		t.Errorf("without a count: %+v", r.fake.asked)
	}
	if got := r.get(t, path+"?offset=10", "Accept", rawType); got.StatusCode != 406 || strings.Contains(got.body, rawType) || !strings.Contains(got.body, binaryV2) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	for _, query := range []string{"count=0", "count=x", "count=1&count=1", "max_records=1", "encoding=json", "explain=true"} {
		if got := r.get(t, path+"?offset=10&"+query); got.StatusCode != 400 {
			t.Errorf("%s: %d", query, got.StatusCode)
		}
	}
}

func TestPathsOfACluster(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"a"}
	r.fake.open = endless(r, 10, 10, nil)
	for path, code := range map[string]int{
		"/v3/clusters/kraft-1/topics":                                      0,
		"/v3/clusters/kraft%2D1/topics":                                    0,
		"/v3/clusters/kraft-1/openapi.json":                                40400,
		"/v3/clusters/kraft-1/topics/orders/partitions/3/records?offset=0": 0,
		"/v3/clusters/kraft-1/topics/orders/partitions/3/offsets":          0,
		"/v3/clusters/other/topics":                                        40403,
		"/v3/clusters/other/topics/orders/partitions/3/records?offset=0":   40403,
		"/v3/clusters//topics":                                             40403,
		"/v3/clusters":                                                     0,
		"/v3/clusters/":                                                    40403,
		"/v3/clusters/kraft-1":                                             0,
		"/v3/clusters/other":                                               40403,
		"/v3/clusters/kraft-1/brokers":                                     40400,
		"/v3/clusters/kraft-1/topics/orders/configs":                       40400,
		"/v3/clusters/kraft-1/topics/orders/partitions":                    0,
		"/v3/clusters/kraft-1/topics/orders/partitions/3":                  0,
		"/v3/clusters/kraft-1/topics/orders/partitions/x":                  40001,
		"/v3/clusters/kraft-1/topics/a%20b":                                40401,
		"/v3/clusters?topic_id=x":                                          40001,
		"/topics/orders/partitions":                                        40400,
		"/v3/clusters/kraft-1/":                                            40400,
		"/v3/clusters/kraft-1/v3/clusters/kraft-1/topics":                  40400,
		"/v3/topics": 40400,
		"/v3/clusters/kraft-1/topics/orders/partitions/3/records/x/y/z/a/b/c/d/": 40400,
	} {
		got := r.get(t, path)
		if code == 0 && got.StatusCode != 200 || code > 0 && !strings.HasPrefix(got.body, `{"error_code":`+strconv.Itoa(code)+`,`) {
			t.Errorf("%s: %d %.200s, want %d", path, got.StatusCode, got.body, code)
		}
	}
	// What an answer links to stays under the same path.
	r.fake.open = endless(r, 10, 1<<20, nil)
	got := r.get(t, "/v3/clusters/kraft-1/topics/orders/partitions/3/records?offset=0")
	if list := decodeList(t, got); list.Metadata.Next == nil || !strings.HasPrefix(*list.Metadata.Next, "/v3/clusters/kraft-1/topics/orders/partitions/3/records?offset=") {
		t.Errorf("%+v", list.Metadata)
	}
}

func TestLanes(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")})
	for query, bulk := range map[string]bool{
		"": false, "&max_bytes=16777216": false, "&max_bytes=16777217": true,
		"&lane=bulk": true, "&lane=interactive&max_bytes=33554432": false,
	} {
		if r.get(t, recordsPath+"?offset=1"+query); (r.fake.asked.Lane == readerpool.Bulk) != bulk {
			t.Errorf("%s: %v", query, r.fake.asked.Lane)
		}
	}
}

// TestStreamsGoToTheirEnd: what is sent while it is read stops only where the client says.
func TestStreamsGoToTheirEnd(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.MaxResponseBytes = 512 << 10 })
	r.runs()
	type asked struct {
		maxBytes     int64
		bulk, stream bool
	}
	for query, want := range map[string]asked{
		"offset=1&format=json":                                                   {512 << 10, false, false},
		"offset=1&end_offset=9&format=json":                                      {512 << 10, false, false},
		"offset=1&end_offset=9&format=v2.text":                                   {512 << 10, false, false},
		"offset=1&format=ndjson":                                                 {1 << 20, false, true},
		"offset=latest&format=sse":                                               {1 << 20, false, true},
		"offset=1&end_offset=9&format=ndjson":                                    {math.MaxInt64, true, true},
		"offset=earliest&end_timestamp=9&format=sse":                             {math.MaxInt64, true, true},
		"timestamp=1&end_timestamp=9&format=raw":                                 {math.MaxInt64, true, true},
		"offset=1&end_offset=9&format=raw&lane=interactive":                      {math.MaxInt64, false, true},
		"offset=1&end_offset=9&format=ndjson&max_bytes=1000000":                  {1_000_000, false, true},
		"offset=1&end_offset=9&format=ndjson&max_bytes=300000000":                {300_000_000, true, true},
		"max_bytes=300000000&offset=1&format=raw&isolation_level=read_committed": {300_000_000, true, true},
	} {
		got := r.get(t, recordsPath+"?"+query)
		a := r.fake.asked
		if got.StatusCode != 200 || (asked{a.MaxBytes, a.Lane == readerpool.Bulk, a.Stream}) != want {
			t.Errorf("%s: %d, asked %+v", query, got.StatusCode, a)
		}
	}
}

// TestFormatByName: for clients that cannot set Accept, and over it.
func TestFormatByName(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, `1`)})
	for name, mediaType := range map[string]string{"json": "application/json", "ndjson": "application/x-ndjson", "raw": rawType, "sse": eventType,
		"v2.binary": binaryV2, "v2.json": jsonV2, "v2.text": textV2} {
		for _, accept := range []string{"", "*/*", "text/html", "application/json", rawType} {
			if got := r.get(t, recordsPath+"?offset=10&format="+name, "Accept", accept); got.StatusCode != 200 || got.Header.Get("Content-Type") != mediaType {
				t.Errorf("%s, Accept %s: %d %v", name, accept, got.StatusCode, got.Header)
			}
		}
	}
	got := r.get(t, recordsPath+"?offset=10&format=csv")
	if got.StatusCode != 400 || !strings.Contains(got.body, `parameter format: must be one of json, ndjson, raw, v2.binary, v2.json, v2.text, sse, not \"csv\"`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	for _, mediaType := range []string{"application/ndjson", "application/jsonl"} {
		if got := r.get(t, recordsPath+"?offset=10", "Accept", mediaType); got.Header.Get("Content-Type") != mediaType || strings.Count(got.body, "\n") != 1 {
			t.Errorf("%s: %v %q", mediaType, got.Header, got.body)
		}
	}
}

// TestBrokersHaveWhatFollows: with a cluster known, an answer that ends with the tier says where to go on.
func TestBrokersHaveWhatFollows(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")})
	unknown := fetch.Bounds{Start: 5, LocalStart: -1, TieredEnd: 11, LastStable: -1, HighWatermark: -1}
	reported := func(change func(*fetch.Bounds)) fetch.Bounds {
		b := unknown
		change(&b)
		return b
	}
	// Old brokers tell no local start.
	for _, bounds := range []fetch.Bounds{
		reported(func(b *fetch.Bounds) { b.LocalStart = 8 }),
		reported(func(b *fetch.Bounds) { b.HighWatermark = 20 }),
		reported(func(b *fetch.Bounds) { b.LastStable = 20 }),
	} {
		r.fake.bounds = bounds
		for accept, want := range map[string]string{
			"application/json": `"next_offset":11,"end":"tier","continue_at":"broker"}`,
			eventType:          `{"end":"tier","continue_at":"broker","next_offset":11,"records":1}`,
		} {
			if got := r.get(t, recordsPath+"?offset=10", "Accept", accept); !strings.Contains(got.body, want) || got.Header.Get("X-Kafka-Continue-At")+got.Trailer.Get("X-Kafka-Continue-At") != "broker" {
				t.Errorf("%s, %+v: %v %s", accept, bounds, got.Header, got.body)
			}
		}
	}
	r.fake.bounds = unknown
	if got := r.get(t, recordsPath+"?offset=10"); strings.Contains(got.body, "broker") || got.Header.Get("X-Kafka-Continue-At") != "" {
		t.Errorf("%v %s", got.Header, got.body)
	}
}

func TestSettledAnswersAreRevalidated(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "1")})
	r.fake.settled = []segment.UUID{{1}, {2}}
	tags := map[string]string{}
	for _, accept := range []string{"application/json", "application/x-ndjson", rawType, binaryV2, jsonV2, textV2} {
		for _, query := range []string{"?offset=10&end_offset=11", "?offset=10&end_offset=12", "?offset=10&end_offset=11&isolation_level=read_uncommitted", "?offset=10&end_offset=11&max_records=1"} {
			got := r.get(t, recordsPath+query, "Accept", accept)
			tag := got.Header.Get("ETag")
			if got.StatusCode != 200 || !strings.HasPrefix(tag, `W/"`) || got.Header.Get("Cache-Control") != "private, no-cache" || tags[tag] != "" {
				t.Errorf("%s as %s: %d %v, like %q", query, accept, got.StatusCode, got.Header, tags[tag])
			}
			tags[tag] = accept + query
			for _, method := range []string{"GET", "HEAD"} {
				again := r.do(t, method, recordsPath+query, "Accept", accept, "If-None-Match", `"other", `+tag)
				if again.StatusCode != 304 || again.body != "" || again.Header.Get("ETag") != tag || again.Header.Get("Vary") != got.Header.Get("Vary") {
					t.Errorf("%s %s as %s: %d %v", method, query, accept, again.StatusCode, again.Header)
				}
			}
			if other := r.get(t, recordsPath+query, "Accept", accept, "If-None-Match", `"other"`); other.StatusCode != 200 || other.body != got.body {
				t.Errorf("%s as %s: %d", query, accept, other.StatusCode)
			}
		}
	}
	for _, c := range []struct {
		condition, value string
		status           int
	}{
		{"If-Match", "*", 200},
		{"If-Match", `"other"`, 412},
		{"If-None-Match", "*", 304},
		{"If-Range", `"other"`, 200},
	} {
		if got := r.get(t, recordsPath+"?offset=10&end_offset=11", c.condition, c.value); got.StatusCode != c.status {
			t.Errorf("%s: %s: %d %s", c.condition, c.value, got.StatusCode, got.body)
		}
	}
	for tag := range tags {
		// Weak validators prove nothing where the comparison is strong.
		if got := r.get(t, recordsPath+"?offset=10&end_offset=11", "If-Match", tag); got.StatusCode != 412 || !strings.Contains(got.body, "41201") {
			t.Errorf("If-Match: %s: %d %s", tag, got.StatusCode, got.body)
		}
	}
	before := tags
	r.fake.settled = []segment.UUID{{1}, {3}}
	if tag := r.get(t, recordsPath+"?offset=10&end_offset=11").Header.Get("ETag"); tag == "" || before[tag] != "" {
		t.Errorf("other segments, tag %q", tag)
	}
	for query, accept := range map[string]string{"?offset=10": "application/json", "?offset=10&end_timestamp=5": "application/json", "?offset=10&end_offset=11": "text/event-stream"} {
		if got := r.get(t, recordsPath+query, "Accept", accept, "If-None-Match", `"a"`); got.StatusCode != 200 || got.Header.Get("ETag") != "" {
			t.Errorf("%s: %d %v", query, got.StatusCode, got.Header)
		}
		if got := r.get(t, recordsPath+query, "Accept", accept, "If-Match", `"a"`); got.StatusCode != 412 {
			t.Errorf("%s, If-Match: %d %v", query, got.StatusCode, got.Header)
		}
	}
	r.fake.settled = nil
	if got := r.get(t, recordsPath+"?offset=10&end_offset=11", "If-None-Match", `"a"`); got.StatusCode != 200 || got.Header.Get("ETag") != "" {
		t.Errorf("unsettled: %d %v", got.StatusCode, got.Header)
	}
	r.fake.err = &fetch.Error{Kind: fetch.OutOfRange}
	if got := r.get(t, recordsPath+"?offset=10&end_offset=11", "If-None-Match", "*"); got.StatusCode != 416 {
		t.Errorf("taken by retention: %d", got.StatusCode)
	}
}
