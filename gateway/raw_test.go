package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/gateway/engine"
	"coldtap/internal/budget"
)

const rawType = "application/vnd.kafka.recordbatch"

func TestRawAnswerSeenWholeHasLengthAndProgress(t *testing.T) {
	r := newHarness(t)
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 10)
		s.runs = []fakeRun{{data: batch(5000, 'a'), next: 20}, {data: batch(70000, 'b'), next: 30}}
		s.end = fetch.EndLimit
		return s, nil
	}
	got := r.get(t, recordsPath+"?offset=10&max_bytes=100", "Accept", rawType, "X-Request-Id", "me <>-1")
	if got.StatusCode != 200 || got.ContentLength != 75000 || got.body != string(batch(5000, 'a'))+string(batch(70000, 'b')) {
		t.Fatalf("%d, %d bytes declared, %d got", got.StatusCode, got.ContentLength, len(got.body))
	}
	for name, want := range map[string]string{
		"Content-Type": rawType, "X-Kafka-Next-Offset": "30", "X-Kafka-End": "limit",
		"X-Kafka-Log-Start-Offset": "5", "X-Kafka-Tiered-End-Offset": "1000",
		"Link":         "<" + recordsPath + `?offset=30&max_bytes=100>; rel="next"`,
		"Vary":         "Accept, Accept-Encoding, Authorization",
		"X-Request-Id": "me-1", "Trailer": "", "Server": "",
	} {
		if h := got.Header.Get(name); h != want {
			t.Errorf("%s: %q, want %q", name, h, want)
		}
	}
}

func TestRawAnswerBeyondTheLookAheadIsChunkedWithTrailers(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.LookAhead = 64 << 10 })
	var runs []fakeRun
	var want strings.Builder
	for i := range 20 {
		data := batch(100_000+i, byte('a'+i))
		want.Write(data)
		runs = append(runs, fakeRun{data: data, next: int64(11 + i)})
	}
	r.runs(runs...)
	got := r.get(t, recordsPath+"?offset=10&max_bytes=2000000", "Accept", rawType)
	if got.err != nil || got.body != want.String() {
		t.Fatalf("%d of %d bytes, %v", len(got.body), want.Len(), got.err)
	}
	if got.ContentLength != -1 {
		t.Errorf("length %d declared", got.ContentLength)
	}
	if next, end := got.Trailer.Get("X-Kafka-Next-Offset"), got.Trailer.Get("X-Kafka-End"); next != "30" || end != "tier" {
		t.Errorf("trailers %v", got.Trailer)
	}
	again := r.get(t, recordsPath+"?offset=10&max_bytes=2000000", "Accept", rawType) // the connection is in order
	if again.err != nil || len(again.body) != want.Len() {
		t.Errorf("second answer: %d bytes, %v", len(again.body), again.err)
	}
}

func TestRawToHTTP10IsDelimitedByClose(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.LookAhead = 1000 })
	runs := []fakeRun{{data: batch(5000, 'a'), next: 20}, {data: batch(3<<20, 'b'), next: 30}}
	r.runs(runs...)
	raw := "GET " + recordsPath + "?offset=10&max_bytes=5000000 HTTP/1.0\r\nHost: x\r\nAccept: " + rawType + "\r\n\r\n"
	answer := r.exchangeRaw(t, raw)
	header, body, _ := strings.Cut(answer, "\r\n\r\n")
	if body != string(batch(5000, 'a'))+string(batch(3<<20, 'b')) {
		t.Errorf("%d bytes", len(body))
	}
	if !strings.Contains(header, "Connection: close") || strings.Contains(header, "chunked") || strings.Contains(header, "Content-Length") {
		t.Errorf("%s", header)
	}

	// One that breaks does not look whole: there is nothing but the reset to tell.
	r.runs(fakeRun{data: batch(5000, 'a'), next: 20}, fakeRun{err: &fetch.Error{Kind: fetch.Unreachable}})
	conn := r.dial(t)
	io.WriteString(conn, raw)
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("a broken body ended like a whole one")
	}
}

func TestRawBreaksVisiblyMidway(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.LookAhead = 1000 })
	for name, broken := range map[string]fakeRun{
		"error": {err: &fetch.Error{Kind: fetch.Damaged, Position: 77}},
		"panic": {do: func(context.Context) { panic("in the stream") }},
	} {
		r.runs(fakeRun{data: batch(50_000, 'a'), next: 20}, broken)
		got := r.get(t, recordsPath+"?offset=10&max_bytes=5000000", "Accept", rawType)
		if got.StatusCode != 200 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d, %v", name, got.StatusCode, got.err)
		}
	}
}

func TestRawErrorBehindTheFirstBatchEndsTheAnswerThere(t *testing.T) {
	r := newHarness(t)
	// The third piece is the first part of a batch whose rest cannot be had: it must not be given.
	r.runs(fakeRun{data: batch(100, 'a'), next: 20}, fakeRun{data: batch(100, 'b'), next: 30},
		fakeRun{data: batch(100, 'c'), next: 30}, fakeRun{err: &fetch.Error{Kind: fetch.Busy}})
	got := r.get(t, recordsPath+"?offset=10", "Accept", rawType)
	if got.StatusCode != 200 || got.ContentLength != 200 || got.Header.Get("X-Kafka-End") != "limit" {
		t.Errorf("%d, %d bytes, end %q", got.StatusCode, got.ContentLength, got.Header.Get("X-Kafka-End"))
	}
}

// TestRawAnswerNeverEndsWithinABatch: where batches that are hidden moved NextOffset on before the first part of a
// batch, that part is no whole one either.
func TestRawAnswerNeverEndsWithinABatch(t *testing.T) {
	r := newHarness(t)
	for _, query := range []string{"", "&max_bytes=5000000"} {
		r.runs(fakeRun{data: batch(100, 'a'), next: 20}, fakeRun{data: batch(100, 'b'), next: 25, part: true}, fakeRun{err: &fetch.Error{Kind: fetch.Busy}})
		got := r.get(t, recordsPath+"?offset=10"+query, "Accept", rawType)
		if got.StatusCode != 200 || got.body != string(batch(100, 'a')) || got.Header.Get("X-Kafka-Next-Offset") != "25" || got.Header.Get("X-Kafka-End") != "limit" {
			t.Errorf("%s: %d, %d bytes, %v", query, got.StatusCode, len(got.body), got.Header)
		}
		r.runs(fakeRun{data: batch(100, 'b'), next: 25, part: true}, fakeRun{err: &fetch.Error{Kind: fetch.Busy}})
		if got := r.get(t, recordsPath+"?offset=10"+query, "Accept", rawType); got.StatusCode != 503 {
			t.Errorf("%s: part of a batch: %d, %d bytes", query, got.StatusCode, len(got.body))
		}
	}
}

// TestRawFirstBatchOfManyPiecesIsSent: the first batch always comes whole, so one that is longer than what is kept to
// tell its length is sent without one. To call that busy would have the client ask for ever.
func TestRawFirstBatchOfManyPiecesIsSent(t *testing.T) {
	for _, lookAhead := range []int64{1 << 20, 64 << 20} {
		r := newHarness(t, func(c *Config) { c.LookAhead = lookAhead })
		for _, n := range []int{2, 7, 8, 9, 40} {
			var runs []fakeRun
			var want strings.Builder
			for i := range n {
				data := batch(400_000, byte('a'+i%26))
				want.Write(data)
				runs = append(runs, fakeRun{data: data, next: 10})
			}
			runs[n-1].next = 20
			r.runs(runs...)
			got := r.get(t, recordsPath+"?offset=10", "Accept", rawType)
			next := got.Header.Get("X-Kafka-Next-Offset") + got.Trailer.Get("X-Kafka-Next-Offset")
			if got.StatusCode != 200 || got.err != nil || got.body != want.String() || next != "20" {
				t.Errorf("%d pieces: %d, %d of %d bytes, next %q, %v", n, got.StatusCode, len(got.body), want.Len(), next, got.err)
			}
		}
	}
}

func TestRawErrorBeforeTheFirstByteHasItsStatus(t *testing.T) {
	r := newHarness(t)
	r.runs(fakeRun{data: batch(100, 'a'), next: 10}, fakeRun{err: &fetch.Error{Kind: fetch.Damaged, Position: 77, NextOffset: -1}})
	if got := r.get(t, recordsPath+"?offset=10", "Accept", rawType); got.StatusCode != 500 || !strings.Contains(got.body, `"position":77`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestRawAnswerOfBoundedSizeNeedsNoTrailers: with max_bytes of at most 1 MiB, the default, how it ends is in headers,
// however many pieces the answer has, since proxies drop trailers.
func TestRawAnswerOfBoundedSizeNeedsNoTrailers(t *testing.T) {
	for _, lookAhead := range []int64{1000, 8 << 20} {
		r := newHarness(t, func(c *Config) { c.LookAhead, c.Decode = lookAhead, budget.New(8<<20) })
		for _, n := range []int{1, 7, 8, 9, 300} {
			var runs []fakeRun
			var want strings.Builder
			for i := range n {
				data := batch(3000+i, byte('a'+i%26))
				want.Write(data)
				runs = append(runs, fakeRun{data: data, next: int64(11 + i)})
			}
			r.runs(runs...)
			for _, query := range []string{"", "&max_bytes=1048576", "&max_records=1000"} {
				got := r.get(t, recordsPath+"?offset=10"+query, "Accept", rawType)
				if got.err != nil || got.body != want.String() || got.ContentLength != int64(want.Len()) || len(got.Trailer) > 0 ||
					got.Header.Get("X-Kafka-Next-Offset") != fmt.Sprint(10+n) || got.Header.Get("X-Kafka-End") != "tier" {
					t.Errorf("%d pieces%s: %d of %d bytes, %v, %v", n, query, len(got.body), want.Len(), got.Header, got.err)
				}
			}
			if got := r.get(t, recordsPath+"?offset=10&max_bytes=1048577", "Accept", rawType); n > 8 && got.ContentLength >= 0 || got.body != want.String() {
				t.Errorf("%d pieces: length %d", n, got.ContentLength)
			}
			// An error, or no memory for pieces beyond the first, ends it behind a whole batch.
			runs = append(runs[:n:n], fakeRun{data: batch(100, 'x'), next: int64(10 + n)}, fakeRun{err: &fetch.Error{Kind: fetch.Busy}})
			r.runs(runs...)
			if got := r.get(t, recordsPath+"?offset=10", "Accept", rawType); got.body != want.String() || got.Header.Get("X-Kafka-Next-Offset") != fmt.Sprint(10+n) || got.Header.Get("X-Kafka-End") != "limit" {
				t.Errorf("%d pieces and an error: %d of %d bytes, %v", n, len(got.body), want.Len(), got.Header)
			}
			until(t, "all decode memory is free", func() bool { return r.decode.TryAcquire(8 << 20) })
			got := r.get(t, recordsPath+"?offset=10", "Accept", rawType)
			r.decode.Release(8 << 20)
			whole := len(got.body) > 0 && strings.HasPrefix(want.String(), got.body)
			var next int
			fmt.Sscan(got.Header.Get("X-Kafka-Next-Offset"), &next)
			if bytes := 0; !whole || got.Header.Get("X-Kafka-End") != "limit" {
				t.Errorf("%d pieces without memory: %d bytes, %v", n, len(got.body), got.Header)
			} else {
				for i := range next - 10 {
					bytes += 3000 + i
				}
				if bytes != len(got.body) {
					t.Errorf("%d pieces without memory: %d bytes up to %d", n, len(got.body), next)
				}
			}
		}
	}
}

// TestHeaderLeavesWithTheBody: a large answer does not cost the client a wake-up for its header alone.
func TestHeaderLeavesWithTheBody(t *testing.T) {
	r := newHarness(t)
	r.runs(fakeRun{data: batch(100_000, 'a'), next: 20})
	conn := r.dial(t)
	fmt.Fprintf(conn, "GET %s?offset=10 HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", recordsPath, rawType)
	first := make([]byte, 4<<10)
	n, err := conn.Read(first)
	if _, body, ok := strings.Cut(string(first[:n]), "\r\n\r\n"); err != nil || !ok || !strings.HasPrefix(body, "aaaa") {
		t.Errorf("%q, %v", first[:n], err)
	}
	if rest, err := io.CopyN(io.Discard, conn, 100_000-4<<10); err != nil {
		t.Errorf("%d bytes more, %v", rest, err)
	}
}

// TestKeepAliveStaysInStep sends many kinds of answers over one connection, each followed by the next: a length that is
// one off would show in the second.
func TestKeepAliveStaysInStep(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.LookAhead = 64 << 10 })
	sizes := []int{0, 1, engine.CoalesceBelow - 1, engine.CoalesceBelow, engine.CoalesceBelow + 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, engine.WriteSlice - 1, engine.WriteSlice, engine.WriteSlice + 1, 3*engine.WriteSlice + 7}
	log := &fakeFile{data: batch(3*engine.WriteSlice+7, 'f'), step: engine.WriteSlice - 3, pinned: &r.pinned}
	r.fake.openFile = func(string, string) (file, error) { return log, nil }
	conn := r.dial(t)
	br := bufio.NewReader(conn)
	for _, size := range sizes {
		for _, method := range []string{"GET", "HEAD"} {
			for _, pieces := range []int{1, 3} {
				var runs []fakeRun
				left := size
				for i := range pieces {
					n := left / (pieces - i)
					left -= n
					if n > 0 {
						runs = append(runs, fakeRun{data: batch(n, 'x'), next: int64(20 + i)})
					}
				}
				r.runs(runs...)
				fmt.Fprintf(conn, "%s %s?offset=10&max_bytes=5000000 HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", method, recordsPath, rawType)
				got := readResponse(t, br, method)
				if want := size; got.StatusCode != 200 || got.err != nil || method == "GET" && len(got.body) != want || method == "HEAD" && got.body != "" {
					t.Fatalf("%s %d bytes in %d: %d, %d bytes, %v", method, size, pieces, got.StatusCode, len(got.body), got.err)
				}
			}
			for _, rangeHeader := range []string{fmt.Sprintf("bytes=-%d", size), fmt.Sprintf("bytes=%d-", len(log.data)-size), fmt.Sprintf("bytes=1-%d", size)} {
				fmt.Fprintf(conn, "%s /topics/orders/partitions/3/segments/0/log HTTP/1.1\r\nHost: x\r\nRange: %s\r\n\r\n", method, rangeHeader)
				got := readResponse(t, br, method)
				from, to, result := parseRange([]byte(rangeHeader), int64(len(log.data)))
				want := map[rangeResult]int{rangePart: 206, rangeWhole: 200, rangeUnsatisfied: 416}[result]
				if got.StatusCode != want || result != rangeUnsatisfied && got.ContentLength != to-from ||
					result != rangeUnsatisfied && method == "GET" && got.body != string(log.data[from:to]) {
					t.Fatalf("%s %s: %d, length %d", method, rangeHeader, got.StatusCode, got.ContentLength)
				}
			}
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	r := newHarness(t)
	r.runs(fakeRun{data: batch(100_000, 'a'), next: 20})
	r.fake.topics = []string{"a", "b"}
	conn := r.dial(t)
	one := "GET " + recordsPath + "?offset=10 HTTP/1.1\r\nHost: x\r\nAccept: " + rawType + "\r\n\r\n"
	two := "GET /topics HTTP/1.1\r\nHost: x\r\n\r\n"
	io.WriteString(conn, one+two+one+two)
	br := bufio.NewReader(conn)
	for i := range 4 {
		got := readResponse(t, br, http.MethodGet)
		if i%2 == 0 && len(got.body) != 100_000 || i%2 == 1 && got.body != "[\"a\",\"b\"]\n" {
			t.Fatalf("answer %d: %d bytes", i, len(got.body))
		}
	}
}
