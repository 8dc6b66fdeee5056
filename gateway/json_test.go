package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/budget"
	"coldtap/readerpool"
	"coldtap/segment"
)

type listAnswer struct {
	Kind     string
	Metadata struct {
		Self       string
		Next       *string
		NextOffset int64  `json:"next_offset"`
		End        string `json:"end"`
		Decided    *int64 `json:"decided_end_offset"`
	}
	Data []struct {
		Offset int64
		Value  *string
	}
}

func decodeList(t *testing.T, got reply) listAnswer {
	t.Helper()
	var list listAnswer
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatalf("%d %v in %.200q", got.StatusCode, err, got.body)
	}
	return list
}

func TestJSONAnswer(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a")}, fakeRecord{rec: record(12, "b"), last: true})
	got := r.get(t, recordsPath+"?timestamp=2026-01-02T03:04:05.0001Z&max_records=7")
	want := `{"kind":"KafkaRecordList","metadata":{"self":"` + recordsPath + `?timestamp=2026-01-02T03:04:05.0001Z&max_records=7","next":null,"next_offset":13,"end":"tier"},"data":[` +
		`{"topic":"orders","partition":3,"offset":10,"timestamp":1700000000010,"timestamp_type":"CREATE_TIME","key":"k","value":"a","headers":[],"leader_epoch":2},` +
		`{"topic":"orders","partition":3,"offset":12,"timestamp":1700000000012,"timestamp_type":"CREATE_TIME","key":"k","value":"b","headers":[],"leader_epoch":2}]}` + "\n"
	if got.body != want || got.StatusCode != 200 || int(got.ContentLength) != len(want) {
		t.Errorf("%d\n%s\n%s", got.StatusCode, got.body, want)
	}
	if h := got.Header; h.Get("X-Kafka-Next-Offset") != "13" || h.Get("Link") != "" || h.Get("Content-Type") != "application/json" {
		t.Errorf("%v", h)
	}
	if q := r.fake.asked; q.Start != fetch.FromTimestamp || q.Timestamp != 1767323045001 || q.MaxRecords != 7 || q.MaxBytes != 1<<20 || q.Isolation != fetch.ReadCommitted || q.Lane != readerpool.Interactive {
		t.Errorf("asked %+v", q)
	}
	if r.closed.Load() != 1 {
		t.Error("the stream was not closed before the answer was written")
	}
}

func TestJSONWithoutRecords(t *testing.T) {
	r := newHarness(t)
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 40)
		s.end, s.decided = fetch.EndUndecided, 40
		return s, nil
	}
	got := r.get(t, recordsPath+"?offset=10")
	list := decodeList(t, got)
	if list.Metadata.End != "undecided" || list.Metadata.Decided == nil || *list.Metadata.Decided != 40 || list.Metadata.NextOffset != 40 || list.Data == nil || len(list.Data) != 0 {
		t.Errorf("%s", got.body)
	}
	if got.Header.Get("X-Kafka-Decided-End-Offset") != "40" {
		t.Errorf("%v", got.Header)
	}
}

// endless gives batches of n records of size bytes each, for ever.
func endless(r *harness, n, size int, do func(i int64) error) func(context.Context, *fetch.Request) (stream, error) {
	return func(_ context.Context, req *fetch.Request) (stream, error) {
		s := &endlessStream{fakeStream: r.stream(req.Offset, req.Offset), n: n, value: []byte(strings.Repeat("v", size)), do: do}
		return s, nil
	}
}

type endlessStream struct {
	*fakeStream
	n     int
	value []byte
	do    func(i int64) error
}

func (s *endlessStream) NextRecord(_ context.Context, rec *segment.Record) error {
	if s.do != nil {
		if err := s.do(s.reached); err != nil {
			return err
		}
	}
	*rec = segment.Record{Offset: s.reached, Value: s.value}
	s.reached++
	s.buffered = s.reached%int64(s.n) != 0
	return nil
}

func TestJSONStopsAtItsShareAndTheNextPageGoesOn(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Decode = budget.New(4 << 20) }) // share 1 MiB
	r.fake.open = endless(r, 10, 1000, nil)
	path, offset := recordsPath+"?offset=0&end_offset=100000", int64(0)
	for range 3 {
		got := r.get(t, path)
		list := decodeList(t, got)
		if len(got.body) < 1<<20 || len(got.body) > 1<<20+20_000 || list.Metadata.End != "limit" || list.Metadata.Next == nil {
			t.Fatalf("%d bytes, %+v", len(got.body), list.Metadata)
		}
		for _, d := range list.Data {
			if d.Offset != offset {
				t.Fatalf("offset %d, want %d", d.Offset, offset)
			}
			offset++
		}
		if list.Metadata.NextOffset != offset {
			t.Fatalf("next %d after %d", list.Metadata.NextOffset, offset-1)
		}
		if link := got.Header.Get("Link"); link != "<"+*list.Metadata.Next+`>; rel="next"` {
			t.Errorf("link %s", link)
		}
		path = *list.Metadata.Next
	}
}

func TestJSONGivesTheFirstBatchWholeBeyondItsShare(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Decode = budget.New(8 << 20) })
	r.fake.open = endless(r, 2000, 1000, nil) // about 2.3 MiB a batch
	list := decodeList(t, r.get(t, recordsPath+"?offset=0"))
	if len(list.Data) != 2000 || list.Metadata.NextOffset != 2000 || list.Metadata.End != "limit" {
		t.Errorf("%d records, %+v", len(list.Data), list.Metadata)
	}
}

func TestJSONEndsBeforeTheBudgetDoes(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Decode = budget.New(4 << 20) })
	r.fake.open = endless(r, 1_000_000, 1000, nil)
	list := decodeList(t, r.get(t, recordsPath+"?offset=0"))
	if n := int64(len(list.Data)); n < 1000 || list.Metadata.NextOffset != n || list.Metadata.End != "limit" {
		t.Errorf("%d records, %+v", n, list.Metadata)
	}
	// A single record above the whole budget cannot be shown in any answer.
	r.fake.open = endless(r, 1, 5<<20, nil)
	if got := r.get(t, recordsPath+"?offset=0"); got.StatusCode != 500 || !strings.Contains(got.body, `"error_code":50003`) || !strings.Contains(got.body, `"next_offset":1}`) {
		t.Errorf("%d %.200s", got.StatusCode, got.body)
	}
}

func TestJSONWithoutMemoryIsRefusedInTime(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Decode = budget.New(4 << 20) })
	r.fake.open = endless(r, 1, 1000, nil)
	if !r.decode.TryAcquire(4 << 20) {
		t.Fatal("no budget")
	}
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		got := r.get(t, recordsPath+"?offset=0&timeout=20", "Accept", accept)
		if got.StatusCode != 503 || got.Header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"error_code":50301`) {
			t.Errorf("%s: %d %s", accept, got.StatusCode, got.body)
		}
	}
	if r.closed.Load() != 2 {
		t.Errorf("%d streams closed of 2", r.closed.Load())
	}
	r.decode.Release(4 << 20)
}

func TestErrorBehindTheFirstRecordEndsTheAnswerThere(t *testing.T) {
	r := newHarness(t)
	r.fake.open = endless(r, 10, 100, func(i int64) error {
		if i == 25 {
			return &fetch.Error{Kind: fetch.Damaged, Position: 4711, NextOffset: -1}
		}
		return nil
	})
	list := decodeList(t, r.get(t, recordsPath+"?offset=0"))
	if len(list.Data) != 25 || list.Metadata.NextOffset != 25 || list.Metadata.End != "limit" {
		t.Errorf("%d records, %+v", len(list.Data), list.Metadata)
	}
	got := r.get(t, recordsPath+"?offset=25")
	if got.StatusCode != 500 || !strings.Contains(got.body, `"error_code":50002`) || !strings.Contains(got.body, `"position":4711`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

func TestLinesWithoutRecordsHaveALength(t *testing.T) {
	r := newHarness(t)
	r.records()
	for query, want := range map[string]string{"": "", "&summary=false": "", "&summary=true": `{"end":"tier","next_offset":10,"records":0}` + "\n"} {
		got := r.get(t, recordsPath+"?offset=10"+query, "Accept", "application/x-ndjson")
		if int(got.ContentLength) != len(want) || got.body != want || got.Header.Get("X-Kafka-Next-Offset") != "10" || got.Header.Get("X-Kafka-End") != "tier" {
			t.Errorf("%s: %d %v %q", query, got.ContentLength, got.Header, got.body)
		}
	}
}

// TestLinesAreRecords: every line is one, so that tools which read ndjson count right.
func TestLinesAreRecords(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a"), last: true}, fakeRecord{rec: record(11, "b"), last: true}, fakeRecord{rec: record(12, "c")})
	got := r.get(t, recordsPath+"?offset=10&end_offset=13", "Accept", "application/x-ndjson")
	for n, line := range strings.Split(strings.TrimSuffix(got.body, "\n"), "\n") {
		var rec struct{ Offset int }
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.Offset != 10+n || n > 2 {
			t.Errorf("line %d: %q", n, line)
		}
	}
	if got.err != nil || got.Trailer.Get("X-Kafka-Next-Offset") != "13" || got.Trailer.Get("X-Kafka-End") != "tier" {
		t.Errorf("%v %v", got.Trailer, got.err)
	}
}

// TestJSONTextSequence: RFC 7464, a record separator before each text and a line feed behind it.
func TestJSONTextSequence(t *testing.T) {
	r := newHarness(t)
	r.records(fakeRecord{rec: record(10, "a"), last: true}, fakeRecord{rec: record(11, "b")})
	lines := strings.SplitAfter(r.get(t, recordsPath+"?offset=10&summary=true", "Accept", "application/x-ndjson").body, "\n")
	got := r.get(t, recordsPath+"?offset=10&summary=true", "Accept", "application/json-seq")
	want := "\x1e" + lines[0] + "\x1e" + lines[1] + "\x1e" + lines[2]
	if len(lines) != 4 || got.body != want || got.Header.Get("Content-Type") != "application/json-seq" {
		t.Errorf("%v %q, want %q", got.Header, got.body, want)
	}
}

func TestLinesAreWrittenAsBatchesAreRead(t *testing.T) {
	r := newHarness(t)
	goOn := make(chan struct{})
	r.records(fakeRecord{rec: record(10, "a"), last: true}, fakeRecord{rec: record(11, "b"), last: true, do: func(context.Context) { <-goOn }})
	resp, err := r.client.Do(request(t, r, recordsPath+"?offset=10&summary=true", "application/x-ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, first); err != nil { // while the second batch is not there
		t.Fatal(err)
	}
	close(goOn)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "{\"end\":\"tier\",\"next_offset\":12,\"records\":2}\n") {
		t.Errorf("%q %v", rest, err)
	}
	if resp.Trailer.Get("X-Kafka-Next-Offset") != "12" || resp.Trailer.Get("X-Kafka-End") != "tier" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

func TestLinesBreakWithAnErrorLine(t *testing.T) {
	r := newHarness(t)
	r.fake.open = endless(r, 10, 10_000, func(i int64) error {
		if i == 105 {
			return &fetch.Error{Kind: fetch.Unreachable, Position: -1, NextOffset: -1}
		}
		return nil
	})
	// All that is whole is sent, and no last chunk.
	if got := r.get(t, recordsPath+"?offset=0", "Accept", "application/x-ndjson"); !errors.Is(got.err, io.ErrUnexpectedEOF) ||
		strings.Count(got.body, "\n") != 105 || strings.Contains(got.body, "error_code") || got.Trailer.Get("X-Kafka-End") != "" {
		t.Errorf("%d lines, %v, %v", strings.Count(got.body, "\n"), got.err, got.Trailer)
	}
	got := r.get(t, recordsPath+"?offset=0&summary=true", "Accept", "application/x-ndjson")
	lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
	var last struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
		Next    int64  `json:"next_offset"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(got.err, io.ErrUnexpectedEOF) || len(lines) != 106 || last.Code != 50303 || last.Message == "" || last.Next != 105 {
		t.Errorf("%d lines, last %+v, %v", len(lines), last, got.err)
	}
}

// TestLinesGiveRecordsOfAnySize: a record far larger than the buffer, and than the decode memory, is written in pieces,
// wherever it comes, and nothing is held beyond the buffer.
func TestLinesGiveRecordsOfAnySize(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Decode = budget.New(2 << 20) })
	large := fakeRecord{rec: record(12, strings.Repeat("v\"", 3<<20)), last: true}
	value := strings.Repeat(`v\"`, 3<<20)
	small := func(offset int64, last bool) fakeRecord { return fakeRecord{rec: record(offset, "a"), last: last} }
	for name, records := range map[string][]fakeRecord{
		"first":            {large, small(13, true)},
		"within a batch":   {small(10, false), large, small(13, true)},
		"the next batch's": {small(10, true), large, small(13, true)},
		"last":             {small(13, false), large},
	} {
		for _, c := range []struct{ accept, coding string }{{"application/x-ndjson", ""}, {"application/x-ndjson", "gzip"}, {"application/json-seq", ""}, {eventType, ""}} {
			r.records(records...)
			got := r.get(t, recordsPath+"?offset=10&summary=true", "Accept", c.accept, "Accept-Encoding", c.coding)
			got.body = decompress(t, got)
			if n := strings.Count(got.body, `"offset":`); got.StatusCode != 200 || got.err != nil || n != len(records) || strings.Count(got.body, value) != 1 ||
				!strings.Contains(got.body, `"`+value+`","headers":[],"leader_epoch":2}`+"\n") || !strings.Contains(got.body, fmt.Sprintf(`"records":%d}`, n)) {
				t.Errorf("%s, %v: %d %v, %d records, %d bytes", name, c, got.StatusCode, got.err, n, len(got.body))
			}
			until(t, "everything is released", func() bool { return r.decode.InUse() == 0 })
		}
	}
}

// TestToTheEndOrBroken: an answer that is to reach a given end and cannot does not look whole, wherever the error
// comes.
func TestToTheEndOrBroken(t *testing.T) {
	r := newHarness(t)
	damaged := &fetch.Error{Kind: fetch.Damaged, Position: 77, NextOffset: -1}
	for _, last := range []bool{false, true} {
		r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
			s := r.stream(10, 10)
			s.runs = []fakeRun{{data: batch(100, 'a'), next: 12}, {err: damaged}}
			s.records = []fakeRecord{{rec: record(10, "a")}, {rec: record(11, "b"), last: last}, {err: damaged}}
			return s, nil
		}
		for _, format := range []string{"ndjson", "sse", "raw"} {
			for _, end := range []string{"end_offset=90", "end_timestamp=1800000000000"} {
				got := r.get(t, recordsPath+"?offset=10&format="+format+"&"+end)
				if got.StatusCode != 200 || !errors.Is(got.err, io.ErrUnexpectedEOF) || got.Header.Get("X-Kafka-End")+got.Trailer.Get("X-Kafka-End") != "" ||
					format == "ndjson" && strings.Count(got.body, "\n") != 2 || format == "raw" && len(got.body) != 100 {
					t.Errorf("%s, %s: %d %v %v %q", format, end, got.StatusCode, got.err, got.Header, got.body)
				}
			}
		}
	}
	// JSON has its bound, and says that it did not reach the end.
	if list := decodeList(t, r.get(t, recordsPath+"?offset=10&end_offset=90")); list.Metadata.End != "limit" || list.Metadata.NextOffset != 12 || list.Metadata.Next == nil {
		t.Errorf("%+v", list.Metadata)
	}
}

func TestLinesPanicAbortsTheBody(t *testing.T) {
	r := newHarness(t)
	r.fake.open = endless(r, 10, 10_000, func(i int64) error {
		if i == 105 {
			panic("in the decoder")
		}
		return nil
	})
	got := r.get(t, recordsPath+"?offset=0", "Accept", "application/x-ndjson")
	if got.StatusCode != 200 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("%d %v", got.StatusCode, got.err)
	}
}

func TestLinesWithALargeRecordAmongSmallOnes(t *testing.T) {
	r := newHarness(t)
	large := strings.Repeat("\x01", 256<<10) // six times as long in JSON
	r.records(fakeRecord{rec: record(10, "a")}, fakeRecord{rec: record(11, large)}, fakeRecord{rec: record(12, "c"), last: true},
		fakeRecord{rec: record(13, large)}, fakeRecord{rec: record(14, "e")})
	got := r.get(t, recordsPath+"?offset=10", "Accept", "application/x-ndjson")
	lines := strings.Split(got.body, "\n")
	if got.err != nil || len(lines) != 6 || len(lines[1]) < 6*256<<10 || len(lines[3]) < 6*256<<10 {
		t.Fatalf("%d lines, %v", len(lines), got.err)
	}
}

// TestNextAddress holds the addresses that answers give against what a client may have sent.
func TestNextAddress(t *testing.T) {
	for _, c := range []struct{ path, query, want string }{
		{"/topics/a/partitions/0/records", "offset=5", "/topics/a/partitions/0/records?offset=9"},
		{"/t", "max_bytes=5&offset=5&encoding=json", "/t?offset=9&max_bytes=5&encoding=json"},
		{"/t", "timestamp=1&end_timestamp=2026-01-01T00:00:00%2B02:00", "/t?offset=9&start_timestamp=1&end_timestamp=2026-01-01T00:00:00%2B02:00"},
		{"/t", "max_bytes=5&time%73tamp=2026-01-01+00:00:00&lateness=1h&end_timestamp=2ms", "/t?offset=9&max_bytes=5&start_timestamp=2026-01-01+00:00:00&lateness=1h&end_timestamp=2ms"},
		{"/t", "timestamp=1&max_bytes=5", "/t?offset=9&max_bytes=5"},
		{"/t", "offset=5&start_timestamp=1&end_timestamp=2", "/t?offset=9&start_timestamp=1&end_timestamp=2"},
		{"/t", "offse%74=5&a=<\">\\\r\n\xff", "/t?offset=9&a=%3C%22%3E%5C%0D%0A%FF"},
		{"/t", "&&offset=5&", "/t?offset=9"},
	} {
		r := new(report)
		r.setAddress([]byte(c.path), []byte(c.query), new(query), strings.Contains(c.query, "end_timestamp"))
		if got := string(r.appendPage(nil, 9)); got != c.want {
			t.Errorf("%s?%s: %s, want %s", c.path, c.query, got, c.want)
		}
	}
}

func BenchmarkJSONAnswer(b *testing.B) {
	r := newHarness(b)
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d records of 1 KiB", n), func(b *testing.B) {
			records := make([]fakeRecord, n)
			for i := range records {
				records[i] = fakeRecord{rec: record(int64(10+i), strings.Repeat("v", 1000))}
			}
			r.records(records...)
			b.SetBytes(int64(n) * 1000)
			for b.Loop() {
				r.get(b, recordsPath+"?offset=10")
			}
		})
	}
}
