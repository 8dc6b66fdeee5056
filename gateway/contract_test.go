package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"coldtap/fetch"
	"coldtap/segment"
	"coldtap/tier"
)

func request(tb testing.TB, r *harness, path, accept string) *http.Request {
	tb.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+r.addr+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	return req
}

func TestParameters(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.MaxResponseBytes = 32 << 20 })
	r.records(fakeRecord{rec: record(10, "a")})
	const offsets, topics, segments = "/topics/orders/partitions/3/offsets", "/topics", "/topics/orders/partitions/3/segments"
	id := segment.UUID{9}.String()
	for _, c := range []struct {
		path, query string
		code        int // 0: fine
		parameter   string
	}{
		{recordsPath, "offset=0", 0, ""},
		{recordsPath, "offset=earliest&end_offset=0", 0, ""},
		{recordsPath, "offset=latest", 0, ""},
		{recordsPath, "offset=earliest_local", 0, ""},
		{recordsPath, "timestamp=0&end_timestamp=0", 0, ""},
		{recordsPath, "timestamp=2026-01-01T00%3A00%3A00%2B02%3A00", 0, ""},
		{recordsPath, "timestamp=2026-01-01T00:00:00+02:00", 0, ""},
		{recordsPath, "offset=5&end_offset=5&max_bytes=33554432&max_records=1&isolation_level=read_uncommitted&timeout=1&encoding=base64&topic_id=" + id, 0, ""},
		{recordsPath, "offset=9223372036854775807", 0, ""},
		{recordsPath, "", 42201, ""},
		{recordsPath, "offset=1&timestamp=1", 42201, ""},
		{recordsPath, "offset=5&end_offset=4", 42201, ""},
		{recordsPath, "timestamp=5&end_timestamp=4", 42201, ""},
		{recordsPath, "offset=9223372036854775808", 40001, "offset"},
		{recordsPath, "offset=-1", 40001, "offset"},
		{recordsPath, "offset=%2B1", 40001, "offset"},
		{recordsPath, "offset=", 40001, "offset"},
		{recordsPath, "offset=1e3", 40001, "offset"},
		{recordsPath, "offset=Earliest", 40001, "offset"},
		{recordsPath, "offset=1&offset=1", 40001, "offset"},
		{recordsPath, "offset=1&offse%74=2", 40001, "offset"},
		{recordsPath, "offset=%zz", 40001, "offset"},
		{recordsPath, "offset=%3", 40001, "offset"},
		{recordsPath, "timestamp=yesterday", 40001, "timestamp"},
		{recordsPath, "timestamp=1960-01-01T00:00:00Z", 40001, "timestamp"},
		{recordsPath, "timestamp=-5", 40001, "timestamp"},
		{recordsPath, "offset=1&end_offset=latest", 40001, "end_offset"},
		{recordsPath, "offset=1&max_bytes=33554433&format=ndjson", 0, ""},
		{recordsPath, "offset=1&max_bytes=9223372036854775807&format=raw", 0, ""},
		{recordsPath, "offset=1&max_bytes=33554433&format=v2.binary", 40001, "max_bytes"},
		{recordsPath, "offset=1&format=NDJSON", 40001, "format"},
		{recordsPath, "offset=1&format=", 40001, "format"},
		{recordsPath, "offset=1&format=json&format=json", 40001, "format"},
		{recordsPath, "offset=1&summary=yes", 40001, "summary"},
		{"/topics/orders/partitions/3/messages", "offset=1&format=v2.text", 0, ""},
		{"/topics/orders/partitions/3/messages", "offset=1&format=ndjson", 40001, "format"},
		{"/topics/orders/partitions/3/messages", "offset=1&summary=true", 40001, "summary"},
		{recordsPath, "offset=1&max_bytes=0", 40001, "max_bytes"},
		{recordsPath, "offset=1&max_bytes=33554433", 40001, "max_bytes"},
		{recordsPath, "offset=1&max_bytes=1MiB", 40001, "max_bytes"},
		{recordsPath, "offset=1&max_records=0", 40001, "max_records"},
		{recordsPath, "offset=1&timeout=0", 40001, "timeout"},
		{recordsPath, "offset=1&timeout=600001", 40001, "timeout"},
		{recordsPath, "offset=1&isolation_level=serializable", 40001, "isolation_level"},
		{recordsPath, "offset=1&encoding=hex", 40001, "encoding"},
		{recordsPath, "offset=1&topic_id=x", 40001, "topic_id"},
		{recordsPath, "offset=1&topic_id=AAAAAAAAAAAAAAAAAAAAAA", 40001, "topic_id"},
		{recordsPath, "offset=1&lane=fast", 40001, "lane"},
		{recordsPath, "offset=1&lane=bulk&lane=bulk", 40001, "lane"},
		{recordsPath, "offset=1&count=1", 40001, "count"},
		{recordsPath, "offset=1&Offset=2", 40001, "Offset"},
		{recordsPath, "offset=1&%00=2", 40001, `\x00`},
		{recordsPath, "offset=1&=2", 40001, ""},
		{"/topics/orders/partitions/x/records", "offset=1", 40001, "partition"},
		{"/topics/orders/partitions/-1/records", "offset=1", 40001, "partition"},
		{"/topics/orders/partitions/2147483648/records", "offset=1", 40001, "partition"},
		{"/topics/orders/partitions//records", "offset=1", 40001, "partition"},
		{"/topics/%6frders/partitions/3/records", "offset=1", 0, ""},
		{"/topics/%256frders/partitions/3/records", "offset=1", 40401, ""},
		{"/topics/a%2Fb", "", 40401, ""},
		{"/topics/..", "", 40401, ""},
		{"/topics/" + strings.Repeat("x", 250), "", 40401, ""},
		{offsets, "timestamp=5&isolation_level=read_uncommitted", 0, ""},
		{offsets, "timestamp=5&timestamp=5", 40001, "timestamp"},
		{offsets, "offset=5", 40001, "offset"},
		{topics, "internal=true", 0, ""},
		{topics, "internal=1", 40001, "internal"},
		{topics, "topic_id=" + id, 40001, "topic_id"},
		{"/topics/orders", "internal=true", 40001, "internal"},
		{segments, "all=true&topic_id=" + id, 0, ""},
		{segments, "all=true&all=true", 40001, "all"},
		{"/", "", 40400, ""}, {"/topics/", "", 40401, ""}, {"/nothing", "", 40400, ""},
		{"/topics/a/b", "", 40400, ""}, {"/topics/a/partitions/0/records/x", "", 40400, ""}, {"/topics/a/b/c/d/e/f/g/h/i", "", 40400, ""},
		{segments + "/0/passwd", "", 40404, ""},
	} {
		got := r.get(t, c.path+"?"+c.query)
		if c.code == 0 {
			if got.StatusCode != 200 {
				t.Errorf("%s?%s: %d %s", c.path, c.query, got.StatusCode, got.body)
			}
			continue
		}
		if got.StatusCode != c.code/100 || !strings.HasPrefix(got.body, `{"error_code":`+strconv.Itoa(c.code)+`,"message":"`) {
			t.Errorf("%s?%s: %d %s, want %d", c.path, c.query, got.StatusCode, got.body, c.code)
		}
		if c.parameter != "" && !strings.Contains(got.body, `,"parameter":"`+strings.ReplaceAll(c.parameter, `\`, `\\`)+`"}`) {
			t.Errorf("%s?%s: %s does not name %s", c.path, c.query, got.body, c.parameter)
		}
	}
}

func TestErrorsOfAReadAsTheClientSeesThem(t *testing.T) {
	r := newHarness(t)
	id := segment.UUID{1, 2, 3}
	for _, c := range []struct {
		err                error
		code               int
		wanted, retryAfter string
	}{
		{&fetch.Error{Kind: fetch.TopicUnknown}, 40401, ``, ""},
		{&fetch.Error{Kind: fetch.PartitionUnknown}, 40402, ``, ""},
		{&fetch.Error{Kind: fetch.SegmentUnknown}, 40404, ``, ""},
		{&fetch.Error{Kind: fetch.BadRequest, Detail: "end before start"}, 42201, `end before start`, ""},
		{&fetch.Error{Kind: fetch.OutOfRange, Bounds: fetch.Bounds{Start: 5, LocalStart: -1, TieredEnd: 9, LastStable: -1, HighWatermark: -1}}, 41601,
			`,"log_start_offset":5,"local_log_start_offset":null,"tiered_end_offset":9}`, ""},
		{&fetch.Error{Kind: fetch.Damaged, Segment: id, Position: 77, NextOffset: 160}, 50002, `,"segment":"` + id.String() + `","position":77,"next_offset":160}`, ""},
		{&fetch.Error{Kind: fetch.Damaged, Segment: id, Position: -1, NextOffset: -1}, 50002, `,"segment":"` + id.String() + `"}`, ""},
		{&fetch.Error{Kind: fetch.TooLarge, Segment: id, Position: 77, NextOffset: 20}, 50003, `,"segment":"` + id.String() + `","position":77,"next_offset":20}`, ""},
		{&fetch.Error{Kind: fetch.Missing, Segment: id}, 50201, `,"segment":"` + id.String() + `"`, ""},
		{&fetch.Error{Kind: fetch.Busy}, 50301, ``, "1"},
		{&fetch.Error{Kind: fetch.Busy, RetryAfter: 2500 * time.Millisecond}, 50301, ``, "3"},
		{&fetch.Error{Kind: fetch.NotReady}, 50302, ``, "1"},
		{&fetch.Error{Kind: fetch.Unreachable}, 50303, ``, "1"},
		{&fetch.Error{Kind: fetch.TimedOut, NextOffset: 12}, 50401, `,"next_offset":12}`, ""},
		{&fetch.Error{Kind: fetch.Internal, Detail: "secret"}, 50001, `,"request_id":"req-7"}`, ""},
		{errors.New("secret"), 50001, `,"request_id":"req-7"}`, ""},
	} {
		r.fake.err = c.err
		got := r.get(t, recordsPath+"?offset=1", "X-Request-Id", "req-7")
		if got.StatusCode != c.code/100 || !strings.HasPrefix(got.body, `{"error_code":`+strconv.Itoa(c.code)+`,"message":"`) ||
			!strings.Contains(got.body, c.wanted) || got.Header.Get("Retry-After") != c.retryAfter || got.Header.Get("X-Request-Id") != "req-7" {
			t.Errorf("%#v: %d %v %s", c.err, got.StatusCode, got.Header, got.body)
		}
		if strings.Contains(got.body, "secret") || strings.Contains(got.body, `:"`+`"`) {
			t.Errorf("%s", got.body)
		}
	}
}

func TestMethodsAndHead(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")})
	r.fake.topics = []string{"a"}
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(100, 'f'), step: 30, pinned: &r.pinned}, nil
	}
	paths := []string{"/topics", "/topics/orders", "/topics/orders/partitions/3/offsets", recordsPath + "?offset=10",
		"/topics/orders/partitions/3/segments", "/topics/orders/partitions/3/segments/0/log"}
	for _, path := range paths {
		get, head := r.get(t, path), r.do(t, http.MethodHead, path)
		if head.StatusCode != 200 || head.body != "" || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d %v", path, head.StatusCode, head.Header)
		}
		if !strings.Contains(path, "/records") && head.ContentLength != get.ContentLength {
			t.Errorf("HEAD %s: length %d, GET %d", path, head.ContentLength, get.ContentLength)
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			got := r.do(t, method, path)
			if got.StatusCode != 405 || got.Header.Get("Allow") != "GET, HEAD" || !strings.Contains(got.body, "40501") {
				t.Errorf("%s %s: %d %v", method, path, got.StatusCode, got.Header)
			}
		}
	}
	r.fake.err = &fetch.Error{Kind: fetch.OutOfRange}
	if got := r.do(t, http.MethodHead, recordsPath+"?offset=10"); got.StatusCode != 416 || got.body != "" {
		t.Errorf("HEAD of an error: %d %q", got.StatusCode, got.body)
	}
}

func TestListings(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"a", "b.c"}
	id := segment.UUID{7}
	r.fake.topic = fetch.TopicInfo{Name: "orders", ID: id, Partitions: []fetch.PartitionInfo{
		{Partition: 0, Start: 1, LocalStart: -1, TieredEnd: 9, TieredBytes: 100, Segments: 2, LastStable: -1, HighWatermark: -1},
		{Partition: 4, Start: 0, LocalStart: 5, TieredEnd: 7, LastStable: 6, HighWatermark: 8},
	}}
	r.fake.partition = r.fake.topic.Partitions[1]
	r.fake.timed = fetch.TimedOffset{Offset: 12, Timestamp: 99, LeaderEpoch: 3}
	r.fake.segments = []fetch.SegmentInfo{{
		Segment: &tier.Segment{ID: id, BaseOffset: 1, EndOffset: 8, MaxTimestamp: 55, Size: 100, State: tier.CopyFinished, Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 1}, {Epoch: 2, StartOffset: 4}}},
		Files:   []fetch.FileInfo{{Name: "log", Size: 100}, {Name: "index", Size: -1}},
	}}
	for _, c := range []struct{ path, want string }{
		{"/topics", `["a","b.c"]`},
		{"/topics/orders", `{"name":"orders","topic_id":"` + id.String() + `","partitions":[` +
			`{"partition":0,"log_start_offset":1,"local_log_start_offset":null,"tiered_end_offset":9,"tiered_bytes":100,"segments":2},` +
			`{"partition":4,"log_start_offset":0,"local_log_start_offset":5,"tiered_end_offset":7,"tiered_bytes":0,"segments":0}]}`},
		{"/topics/orders/partitions/4/offsets", `{"beginning_offset":0,"end_offset":8,"local_log_start_offset":5,"tiered_end_offset":7,"last_stable_offset":6}`},
		{"/topics/orders/partitions/4/offsets?timestamp=5", `{"offset":12,"timestamp":99,"leader_epoch":3}`},
		{"/topics/orders/partitions/4/segments", `[{"id":"` + id.String() + `","base_offset":1,"last_offset":8,"bytes":100,"max_timestamp":55,` +
			`"leader_epochs":[{"epoch":0,"start_offset":1},{"epoch":2,"start_offset":4}],"state":"COPY_SEGMENT_FINISHED","files":[{"name":"log","bytes":100},{"name":"index","bytes":null}]}]`},
	} {
		got := r.get(t, c.path)
		if got.StatusCode != 200 || got.body != c.want+"\n" || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s\nwant %s", c.path, got.StatusCode, got.body, c.want)
		}
	}
	if r.fake.all || r.fake.internal || r.fake.at != 5 || r.fake.asked.Isolation != fetch.ReadCommitted {
		t.Errorf("%+v", r.fake)
	}
	r.get(t, "/topics?internal=true")
	r.get(t, "/topics/orders/partitions/4/segments?all=true")
	r.get(t, "/topics/orders/partitions/4/offsets?timestamp=5&isolation_level=read_uncommitted")
	if !r.fake.all || !r.fake.internal || r.fake.asked.Isolation != fetch.ReadUncommitted {
		t.Errorf("%+v", r.fake)
	}
	r.fake.topics, r.fake.segments = nil, nil
	if got := r.get(t, "/topics"); got.body != "[]\n" {
		t.Errorf("%q", got.body)
	}
	if got := r.get(t, "/topics/orders/partitions/4/segments"); got.body != "[]\n" {
		t.Errorf("%q", got.body)
	}
}

// TestLongListingIsWhole makes a listing of many blocks.
func TestLongListingIsWhole(t *testing.T) {
	r := newHarness(t)
	for i := range 20_000 {
		r.fake.topics = append(r.fake.topics, "topic-"+strings.Repeat("x", i%200)+strconv.Itoa(i))
	}
	want := `["` + strings.Join(r.fake.topics, `","`) + `"]` + "\n"
	if got := r.get(t, "/topics"); got.body != want {
		t.Errorf("%d bytes, want %d", len(got.body), len(want))
	}
}

func TestAdmin(t *testing.T) {
	r := newHarness(t)
	age := ""
	admin := NewAdmin(AdminConfig{Metrics: r.reg, Ready: r.Ready, Status: func() string { return age }})
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		admin.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	r.get(t, "/topics")
	until(t, "the request is counted", func() bool {
		return strings.Contains(ask("/metrics").Body.String(), `coldtap_gateway_requests_total{route="topics",status="200"} 1`)
	})
	if body := ask("/metrics").Body.String(); !strings.Contains(body, `coldtap_gateway_cut_clients_total{reason="pressure"} 0`) {
		t.Error("label values are not there from the start")
	}
	for path, want := range map[string]int{"/healthy": 200, "/ready": 200, "/debug/pprof/": 200, "/debug/pprof/cmdline": 200, "/nothing": 404} {
		if got := ask(path).Code; got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := ask("/ready").Body.String(); got != "ready\n" {
		t.Errorf("%q", got)
	}
	age = "metadata as of 40s ago"
	if got := ask("/ready"); got.Code != 200 || got.Body.String() != "ready: metadata as of 40s ago\n" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	r.fake.err = errors.New("the metadata is still loading")
	if got := ask("/ready"); got.Code != 503 || !strings.Contains(got.Body.String(), "still loading") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	r.fake.err = nil
	r.Shutdown(context.Background())
	if got := ask("/ready"); got.Code != 503 || !strings.Contains(got.Body.String(), "draining") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
