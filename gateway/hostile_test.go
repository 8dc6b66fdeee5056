package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/fetch"
	"coldtap/gateway/engine"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestAmbiguousRequestsAreRefused sends what a proxy in front may read differently, each with a second request hidden
// where one reading ends and the other goes on.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.ReadTimeout, c.IdleTimeout = time.Second, time.Second })
	r.fake.topics = []string{"t"}
	const hidden = "GET /topics?hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, raw := range map[string]string{
		"length and chunks":      "GET /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunks and length":      "GET /topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":            "GET /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n" + hidden,
		"two equal lengths":      "GET /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + hidden,
		"two encodings":          "GET /topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"unknown encoding":       "GET /topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden,
		"encoding in HTTP/1.0":   "GET /topics HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"bare LF in a chunk":     "GET /topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nxx\r\n0\r\n\r\n" + hidden,
		"space before the colon": "GET /topics HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n" + hidden,
		"folded field":           "GET /topics HTTP/1.1\r\nHost: x\r\nX-A: b\r\n Content-Length: 5\r\n\r\n" + hidden,
		"extra spaces":           "GET  /topics  HTTP/1.1\r\nHost: x\r\n\r\n" + hidden,
		"bare LF in a value":     "GET /topics HTTP/1.1\r\nHost: x\r\nX-A: b\nX-B: c\r\n\r\n" + hidden,
		"bare LF hides a length": "GET /topics HTTP/1.1\r\nHost: x\r\nX-A: b\nContent-Length: 5\r\n\r\n" + hidden,
		"bare LF ends the head":  "GET /topics HTTP/1.1\r\nHost: x\n\nX-B: c\r\n\r\n" + hidden,
		"identity":               "GET /topics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n" + hidden,
		"no host":                "GET /topics HTTP/1.1\r\nX-A: b\r\n\r\n" + hidden,
		"no field at all":        "GET /topics HTTP/1.1\r\n\r\n" + hidden,
		"two hosts":              "GET /topics HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + hidden,
		"length overflows":       "POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 21000000000000000000\r\n\r\n" + hidden,
		"negative length":        "POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + hidden,
		"signed length":          "POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n" + hidden,
		"no version":             "GET /topics\r\nHost: x\r\n\r\n" + hidden,
		"other protocol":         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		answer := r.exchangeRaw(t, raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 400 ") || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %.300q", name, answer)
		}
		if !strings.Contains(answer, "Connection: close\r\n") || !strings.Contains(answer, `{"error_code":40001,`) {
			t.Errorf("%s: %.300q", name, answer)
		}
	}
	if got := r.get(t, "/topics"); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

// TestOtherVersionsAreRefused: a client of another protocol gets 505, and no second request is read.
func TestOtherVersionsAreRefused(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"t"}
	for _, version := range []string{"HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/1.2", "HTTP/9.9"} {
		for _, start := range []string{"GET /topics ", "HEAD /topics "} {
			answer := r.exchangeRaw(t, start+version+"\r\nHost: x\r\n\r\nGET /topics HTTP/1.1\r\nHost: x\r\n\r\n")
			if !strings.HasPrefix(answer, "HTTP/1.1 505 ") || strings.Count(answer, "\r\n\r\n") != 1 ||
				start == "GET /topics " && !strings.Contains(answer, `{"error_code":50501,`) {
				t.Errorf("%s%s: %.300q", start, version, answer)
			}
		}
	}
	for _, bad := range []string{"HTTP/1", "HTTP/1.10", "http/1.1", "HTTPS/1.1", "HTTP/1.1x"} {
		if answer := r.exchangeRaw(t, "GET /topics "+bad+"\r\nHost: x\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("%s: %.300q", bad, answer)
		}
	}
	if answer := r.exchangeRaw(t, "GET /topics HTTP/1.0\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("1.0: %.300q", answer)
	}
}

func TestUnwantedBodies(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.ReadTimeout = 300 * time.Millisecond })
	r.fake.topics = []string{"t"}
	for _, c := range []struct{ raw, status string }{
		{"GET /topics HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "417"},
		{"POST /topics HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "417"},
		{"POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "408"},
		{"POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "405"},
		{"GET /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "200"},
		{"POST /topics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", "413"},
	} {
		answer := r.exchangeRaw(t, c.raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status+" ") || !strings.Contains(answer, "\r\nX-Request-Id: ") {
			t.Errorf("%q: %.200q, want %s", c.raw, answer, c.status)
		}
	}
}

func TestRefusedExpectationEchoesTheRequestID(t *testing.T) {
	r := newHarness(t)
	answer := r.exchangeRaw(t, "GET /topics HTTP/1.1\r\nHost: x\r\nX-Request-Id: req-7\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 417 ") || !strings.Contains(answer, "\r\nX-Request-Id: req-7\r\n") {
		t.Errorf("%.300q", answer)
	}
}

// lockedBuffer is a log that is read while others may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The log must name the partition and the place where an answer broke.
func TestBrokenAnswersNameTheirPlace(t *testing.T) {
	var said lockedBuffer
	r := newHarness(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	unreachable := &fetch.Error{Kind: fetch.Unreachable, Position: -1, NextOffset: -1}
	r.runs(fakeRun{data: batch(2<<20, 'a'), next: 20}, fakeRun{err: unreachable})
	r.get(t, recordsPath+"?offset=10&max_bytes=67108864", "Accept", rawType)
	r.records(fakeRecord{rec: record(10, strings.Repeat("x", 100<<10)), last: true}, fakeRecord{err: unreachable})
	r.get(t, recordsPath+"?offset=10", "Accept", "application/x-ndjson")
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(100_000, 'x'), step: 30_000, pinned: &r.pinned, failAt: 40_000}, nil
	}
	r.get(t, filePath, "Range", "bytes=1-")
	for _, want := range []string{
		"route=records bytes=2097152 topic=orders partition=3 offset=20 error=",
		"topic=orders partition=3 offset=11 error=",
		"route=file bytes=60000 topic=orders partition=3 position=60001 error=",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
}

func TestHeaderSizes(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"t"}
	send := func(n int) string {
		return r.exchangeRaw(t, "GET /topics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: "+strings.Repeat("a", n)+"\r\n\r\n")
	}
	if answer := send(12 << 10); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("12 KiB: %.200q", answer)
	}
	answer := send(64 << 10)
	if !strings.HasPrefix(answer, "HTTP/1.1 431 ") || !strings.Contains(answer, `{"error_code":43101,`) {
		t.Errorf("64 KiB: %.200q", answer)
	}
	if n := testutil.ToFloat64(r.metrics.requests[routeOther][statusIndex(431)]); n != 1 {
		t.Errorf("counted %v", n)
	}
	long := r.get(t, "/topics?"+strings.Repeat("x", 6<<10)+"=1")
	if long.StatusCode != 400 || len(long.body) > 300 {
		t.Errorf("long query: %d, %d bytes", long.StatusCode, len(long.body))
	}
}

func statusIndex(status int) int {
	for i, s := range statuses {
		if s == status {
			return i
		}
	}
	panic(status)
}

func TestSilentAndSlowClientsAreClosed(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.ReadTimeout, c.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond })
	r.fake.topics = []string{"t"}
	const n = 50
	ended := make(chan string, 3*n)
	watch := func(conn net.Conn) {
		answer, _ := io.ReadAll(conn)
		ended <- string(answer)
	}
	for range n {
		go watch(r.dial(t)) // silent

		drip := r.dial(t)
		go watch(drip)
		go func() {
			for _, c := range []byte("GET /topics HTTP/1.1\r\nHost: " + strings.Repeat("x", 200)) {
				if _, err := drip.Write([]byte{c}); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()

		idle := r.dial(t)
		io.WriteString(idle, "GET /topics HTTP/1.1\r\nHost: x\r\n\r\n")
		go watch(idle)
	}
	served := 0
	for range 3 * n {
		answer := <-ended // each ends, or its deadline fails the test
		if strings.HasPrefix(answer, "HTTP/1.1 200 ") {
			served++
		}
	}
	if served != n {
		t.Errorf("%d of %d proper requests were answered", served, n)
	}
}

func TestClientGoneWhileItWaitsCancelsTheRead(t *testing.T) {
	r := newHarness(t)
	cancelled := make(chan struct{})
	r.fake.open = func(ctx context.Context, _ *fetch.Request) (stream, error) {
		<-ctx.Done()
		close(cancelled)
		return nil, &fetch.Error{Kind: fetch.Canceled, Err: ctx.Err()}
	}
	conn := r.dial(t)
	fmt.Fprintf(conn, "GET %s?offset=1 HTTP/1.1\r\nHost: x\r\n\r\n", recordsPath)
	until(t, "the request is under way", func() bool { return r.metric("in_flight_requests") == 1 })
	conn.Close()
	<-cancelled
	until(t, "the request is over", func() bool { return r.metric("in_flight_requests") == 0 })
	if n := r.metric("cut_clients_total", "gone"); n != 1 {
		t.Errorf("counted %v", n)
	}
}

func TestPanicIsAnAnswerWithAnID(t *testing.T) {
	r := newHarness(t)
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) { panic("in open") }
	got := r.get(t, recordsPath+"?offset=1", "X-Request-Id", "req-9")
	if got.StatusCode != 500 || !strings.Contains(got.body, `"error_code":50001`) || !strings.Contains(got.body, `"request_id":"req-9"`) || strings.Contains(got.body, "open") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	for _, accept := range []string{rawType, "application/json", "application/x-ndjson"} {
		r.runs(fakeRun{do: func(context.Context) { panic("in the first run") }})
		if accept != rawType {
			r.records(fakeRecord{rec: record(10, "a"), do: func(context.Context) { panic("in the first record") }})
		}
		closed := r.closed.Load()
		if got := r.get(t, recordsPath+"?offset=1", "Accept", accept); got.StatusCode != 500 || r.closed.Load() != closed+1 {
			t.Errorf("%s: %d, %d streams closed", accept, got.StatusCode, r.closed.Load()-closed)
		}
	}
	if n := testutil.ToFloat64(r.metrics.panics); n != 4 {
		t.Errorf("%v panics counted", n)
	}
}

// stall opens a connection, asks for a large answer and reads nothing of it.
func (r *harness) stall(tb testing.TB) net.Conn {
	tb.Helper()
	conn := r.dial(tb)
	fmt.Fprintf(conn, "GET %s?offset=1&max_bytes=67108864 HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", recordsPath, rawType)
	return conn
}

func (r *harness) endlessRuns(n int) {
	data := batch(1<<20, 'x')
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 10)
		for i := range n {
			s.runs = append(s.runs, fakeRun{data: data, next: int64(11 + i)})
		}
		return s, nil
	}
}

func TestStalledClientIsCutAfterTheStallTimeout(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.StallTimeout = 300 * time.Millisecond })
	r.endlessRuns(64)
	r.stall(t)
	until(t, "cut", func() bool { return r.metric("cut_clients_total", "stalled") == 1 })
	until(t, "released", func() bool { return r.pinned.Load() == 0 && r.closed.Load() == 1 })
}

func TestSlowButSteadyClientIsServedWhole(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.StallTimeout = 400 * time.Millisecond })
	r.endlessRuns(12)
	conn := r.stall(t)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The whole takes several stall timeouts, each pause is a part of one.
	total, buf := 0, make([]byte, 512<<10)
	for err == nil {
		var n int
		n, err = io.ReadFull(resp.Body, buf)
		total += n
		time.Sleep(60 * time.Millisecond)
	}
	if total != 12<<20 {
		t.Errorf("%d bytes, %v", total, err)
	}
}

func TestPressureCutsTheLongestStalled(t *testing.T) {
	r := newHarness(t)
	r.endlessRuns(64)
	if r.CutLongestStalled() {
		t.Error("a client was cut, and there is none")
	}
	first := r.stall(t)
	until(t, "the first has stalled", func() bool { return r.metric("stalled_clients") == 1 })
	second := r.stall(t)
	until(t, "both have stalled", func() bool { return r.metric("stalled_clients") == 2 })
	if !r.CutLongestStalled() {
		t.Fatal("no client was cut")
	}
	until(t, "its piece is released", func() bool { return r.closed.Load() == 1 })
	if _, err := io.Copy(io.Discard, first); err == nil {
		t.Error("the first's connection did not end with an error")
	}
	resp, err := http.ReadResponse(bufio.NewReader(second), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != 64<<20 || err != nil {
		t.Errorf("the second got %d bytes, %v", n, err)
	}
}

// TestPressureCutsHoldersOfTheWantedMemory: a stalled client with a batch that was joined in decode memory holds that,
// others with batches in chunks do not.
func TestPressureCutsHoldersOfTheWantedMemory(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		r := newHarness(t)
		r.runs(fakeRun{data: batch(64<<20, 'x'), next: 11, decoded: decoded})
		r.stall(t)
		until(t, "it has stalled", func() bool { return r.metric("stalled_clients") == 1 })
		if cut := r.engine.Relieve(engine.Memory(r.decode.Streams().Set())); cut != decoded {
			t.Errorf("in decode memory %v: cut %v", decoded, cut)
		}
		if cut := r.CutLongestStalled(); cut == decoded {
			t.Errorf("in chunks %v: cut %v", !decoded, cut)
		}
		until(t, "its piece is released", func() bool { return r.closed.Load() == 1 })
	}
}

func TestPressureEndsLookingAhead(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		r := newHarness(t)
		kind := engine.Chunks
		if decoded {
			kind = engine.Memory(r.decode.Streams().Set())
		}
		r.runs(fakeRun{data: batch(50_000, 'a'), next: 20, decoded: decoded}, fakeRun{do: func(ctx context.Context) { <-ctx.Done() }})
		answered := make(chan reply, 1)
		go func() { answered <- r.get(t, recordsPath+"?offset=10", "Accept", rawType) }()
		until(t, "it was interrupted", func() bool { return r.engine.Relieve(kind) })
		got := <-answered
		if got.StatusCode != 200 || got.ContentLength != 50_000 || got.err != nil || got.Header.Get("X-Kafka-Next-Offset") != "20" || got.Header.Get("X-Kafka-End") != "limit" {
			t.Errorf("%d %d %v %v", got.StatusCode, got.ContentLength, got.err, got.Header)
		}
	}
}

func TestDrain(t *testing.T) {
	r := newHarness(t)
	goOn := make(chan struct{})
	r.runs(fakeRun{data: batch(50_000, 'a'), next: 20, do: func(context.Context) { <-goOn }})
	idle := r.dial(t)
	io.WriteString(idle, "GET /topics HTTP/1.1\r\nHost: x\r\n\r\n")
	readResponse(t, bufio.NewReader(idle), http.MethodGet)
	answered := make(chan reply, 1)
	go func() { answered <- r.get(t, recordsPath+"?offset=10", "Accept", rawType) }()
	until(t, "the request is under way", func() bool { return r.metric("in_flight_requests") == 1 })

	results := make(chan error, 2)
	for range 2 {
		go func() { results <- r.Shutdown(context.Background()) }()
	}
	until(t, "not ready", func() bool { return r.Ready() != nil })
	if _, err := io.ReadAll(idle); err != nil {
		t.Errorf("the idle connection: %v", err)
	}
	close(goOn)
	if got := <-answered; got.StatusCode != 200 || len(got.body) != 50_000 || got.err != nil {
		t.Errorf("the running answer: %d, %d bytes, %v", got.StatusCode, len(got.body), got.err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := r.Shutdown(context.Background()); err != nil {
		t.Errorf("third: %v", err)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("still listening")
	}
}

func TestDrainLimitCutsWhatStillRuns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &harness{fake: &fakeService{}, addr: ln.Addr().String(), reg: prometheus.NewRegistry()}
	r.Server = newServer(Config{Hosts: []string{"x"}, Registerer: r.reg}, r.fake)
	served := make(chan error, 1)
	go func() { served <- r.Serve(ln) }()
	r.endlessRuns(64)
	for range 10 {
		r.stall(t) // in a write
	}
	silent := r.dial(t)
	until(t, "all have stalled", func() bool { return r.metric("stalled_clients") == 10 })
	waiting := r.dial(t)
	r.fake.open = func(ctx context.Context, _ *fetch.Request) (stream, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	fmt.Fprintf(waiting, "GET %s?offset=1 HTTP/1.1\r\nHost: x\r\n\r\n", recordsPath)
	until(t, "all are under way", func() bool { return r.metric("in_flight_requests") == 11 })
	drain, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(drain); err == nil {
		t.Error("no word of what was cut")
	}
	for _, conn := range []net.Conn{silent, waiting} {
		if b, _ := io.ReadAll(conn); len(b) != 0 {
			t.Errorf("got %q", b)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	until(t, "everything released", func() bool { return r.pinned.Load() == 0 && r.closed.Load() == 10 })
	if n := r.metric("cut_clients_total", "drain"); n != 11 {
		t.Errorf("%v cut", n)
	}
}

func FuzzRequests(f *testing.F) {
	r := newHarness(f, func(c *Config) { c.ReadTimeout = 50 * time.Millisecond })
	r.fake.topics = []string{"t"}
	r.runs(fakeRun{data: batch(100, 'a'), next: 20})
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(100, 'f'), step: 30, pinned: &r.pinned}, nil
	}
	f.Add("GET", "/topics?internal=true", "Accept: */*")
	f.Add("HEAD", filePath, "Range: bytes=-5")
	f.Add("GET", recordsPath+"?offset=1&max_bytes=5", "Accept: "+rawType)
	f.Add("GET", "/v3/clusters/kraft-1"+recordsPath+"?offset=1", "Accept: text/event-stream\r\nLast-Event-ID: 7")
	f.Add("HEAD", "/openapi.json", "Accept-Encoding: gzip;q=1, zstd")
	f.Fuzz(func(t *testing.T, method, target, header string) {
		answer := r.exchangeRaw(t, method+" "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n\r\n")
		if answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 ") || strings.HasPrefix(answer, "HTTP/1.1 500") {
			t.Errorf("%q", answer)
		}
	})
}
