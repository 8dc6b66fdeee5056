package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"coldtap/cache"
	"coldtap/fetch"
	"coldtap/gateway/engine"
	"coldtap/indexcache"
	"coldtap/internal/budget"
	"coldtap/internal/invariants"
	"coldtap/internal/readcost"
	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"
	"coldtap/readahead"
	"coldtap/readerpool"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

var sampleFiles = sync.OnceValues(sample.Files)

// logBytes gives bytes of a segment's log.
type logBytes func(dst []byte, off int64)

func (l logBytes) LoadChunk(_ context.Context, off int64, dst []byte, _ readerpool.Lane) (readcost.Cost, error) {
	l(dst, off)
	return readcost.Cost{Requests: 1, Bytes: int64(len(dst))}, nil
}

// catalog is a tier as fetch's source.
type catalog struct{ *tier.Tier }

func (catalog) Ready() error                                    { return nil }
func (catalog) Refresh(context.Context, tier.PartitionID) error { return nil }
func (catalog) ClusterID() string                               { return "test" }

// realHarness is a data plane over the real fetch and cache, and logs in memory.
type realHarness struct {
	*harness
	tier   *tier.Tier
	chunks *cache.Cache
	logs   map[segment.UUID]logBytes
	files  map[segment.UUID]*segment.Files
	chunk  int64
}

func newRealHarness(tb testing.TB, chunk, memory int64, change ...func(*Config)) *realHarness {
	tb.Helper()
	r := &realHarness{harness: &harness{reg: prometheus.NewRegistry()}, tier: tier.New(), logs: map[segment.UUID]logBytes{}, files: map[segment.UUID]*segment.Files{}, chunk: chunk}
	var pressure atomic.Pointer[Server]
	var err error
	r.chunks, err = cache.New(cache.Config{Memory: memory, Chunk: int(chunk), Pressure: func() { pressure.Load().CutLongestStalled() }})
	if err != nil {
		tb.Fatal(err)
	}
	indexes, err := indexcache.New(indexcache.Config{Memory: 8 << 20}, func(_ context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
		return r.files[seg.ID], readcost.Cost{Requests: 1}, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := Config{Decode: budget.New(64 << 20), LookAhead: 2 * chunk, Hosts: []string{"x"}, Registerer: r.reg}
	for _, c := range change {
		c(&cfg)
	}
	cfg.Service = fetch.New(fetch.Config{Source: catalog{r.tier}, Chunks: r.chunks, Ahead: readahead.New(r.chunks, readahead.Config{}),
		Indexes: indexes, Decode: cfg.Decode,
		Logs: func(seg *tier.Segment) (cache.Source, int64) { return r.logs[seg.ID], r.chunk }})
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(r.chunks.Close(ctx), indexes.Close(ctx)); err != nil {
			tb.Error(err)
		}
		if n := r.chunks.SlabsInUse(); n != 0 {
			tb.Errorf("%d slabs are still in use", n)
		}
	})
	r.Server = New(cfg)
	pressure.Store(r.Server)
	r.serve(tb)
	return r
}

func (r *realHarness) add(tb testing.TB, topic segment.UUID, name string, partition int32, base, end, size int64, log logBytes, files *segment.Files) {
	tb.Helper()
	id := topic
	binary.BigEndian.PutUint32(id[4:], uint32(partition))
	binary.BigEndian.PutUint64(id[8:], uint64(base+1))
	r.logs[id], r.files[id] = log, files
	rejected := r.tier.Apply(
		tier.TopicSeen{ID: topic, Name: name, At: 1},
		tier.SegmentLoaded{Segment: tier.Segment{ID: id, Partition: tier.PartitionID{Topic: topic, Partition: partition}, Topic: name,
			BaseOffset: base, EndOffset: end, MaxTimestamp: 1 << 60, EventTime: 1, Size: size, State: tier.CopyFinished,
			Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: base}}}})
	if len(rejected) > 0 {
		tb.Fatalf("%+v", rejected)
	}
}

// addSample adds the closed segments of a partition of the sample and gives the offset behind them.
func (r *realHarness) addSample(tb testing.TB, topic segment.UUID, dir string) (end int64) {
	tb.Helper()
	files, err := sampleFiles()
	if err != nil {
		tb.Fatal(err)
	}
	name, partition, _ := segment.ParsePartitionDir(dir)
	var bases []int64
	for path := range files {
		if file, ok := strings.CutPrefix(path, dir+"/"); ok {
			if base, suffix, ok := segment.ParseFileName(file); ok && suffix == ".log" {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	for i, base := range bases[:len(bases)-1] {
		end = bases[i+1]
		file := func(suffix string) []byte { return files[dir+"/"+segment.FileName(base, suffix)] }
		snapshot := files[dir+"/"+segment.FileName(end, ".snapshot")] // as of the segment's end, as brokers copy it
		log := file(".log")
		r.add(tb, topic, name, partition, base, end-1, int64(len(log)), func(dst []byte, off int64) { copy(dst, log[off:]) },
			&segment.Files{OffsetIndex: file(".index"), TimeIndex: file(".timeindex"), TxnIndex: file(".txnindex"), Snapshot: snapshot})
	}
	return end
}

type shownRecord struct {
	Offset      int64
	Timestamp   int64
	Type        string `json:"timestamp_type"`
	LeaderEpoch int32  `json:"leader_epoch"`
	Key, Value  *string
	Headers     []struct {
		Key   string
		Value *string
	}
}

func sameBytes(t *testing.T, shown *string, want []byte) bool {
	t.Helper()
	if shown == nil {
		return want == nil
	}
	b, err := base64.StdEncoding.DecodeString(*shown)
	return err == nil && want != nil && string(b) == string(want)
}

// page takes an answer apart: its records, where the next one begins, and why it ends.
func page(t *testing.T, accept string, answer reply) (records []shownRecord, next int64, end string) {
	t.Helper()
	var tail struct {
		End  string
		Next int64 `json:"next_offset"`
	}
	decode := func(text string, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v in %.200q", err, text)
		}
	}
	switch accept {
	case "application/json":
		list := struct {
			Metadata any
			Data     *[]shownRecord
		}{&tail, &records}
		decode(answer.body, &list)
	case binaryV2:
		decode(answer.body, &records)
		tail.End = answer.Header.Get("X-Kafka-End")
		fmt.Sscan(answer.Header.Get("X-Kafka-Next-Offset"), &tail.Next)
	case "application/x-ndjson":
		for line := range strings.Lines(answer.body) {
			var rec shownRecord
			decode(line, &rec)
			records = append(records, rec)
		}
		tail.End = answer.Header.Get("X-Kafka-End") + answer.Trailer.Get("X-Kafka-End")
		fmt.Sscan(answer.Header.Get("X-Kafka-Next-Offset")+answer.Trailer.Get("X-Kafka-Next-Offset"), &tail.Next)
	case eventType:
		var lines []string
		for line := range strings.Lines(answer.body) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				lines = append(lines, data)
			}
		}
		decode(lines[len(lines)-1], &tail)
		for _, line := range lines[:len(lines)-1] {
			var rec shownRecord
			decode(line, &rec)
			records = append(records, rec)
		}
	}
	return records, tail.Next, tail.End
}

// TestSampleInEveryFormat reads partitions of a real broker page by page, in both isolation levels, and holds them
// against what Kafka's own consumer saw.
func TestSampleInEveryFormat(t *testing.T) {
	for i, dir := range []string{"plain-0", "codecs-0", "gaps-0", "txn-0", "txn-1"} {
		for _, level := range []string{"read_uncommitted", "read_committed"} {
			t.Run(dir+" "+level, func(t *testing.T) {
				r := newRealHarness(t, 64<<10, 4<<20)
				end := r.addSample(t, segment.UUID{byte(i + 1)}, dir)
				topic, partition, _ := segment.ParsePartitionDir(dir)
				base := fmt.Sprintf("/topics/%s/partitions/%d/records?isolation_level=%s&max_bytes=9000&", topic, partition, level)
				stop := int64(-1) // where every format's reading must end
				for _, accept := range []string{"application/json", "application/x-ndjson", eventType, binaryV2, rawType} {
					var got []shownRecord
					n, why := 0, "limit"
					for offset := int64(0); why == "limit"; {
						path := fmt.Sprintf("%soffset=%d", base, offset)
						if accept != binaryV2 {
							path += "&encoding=base64"
						}
						answer := r.get(t, path, "Accept", accept, "Accept-Encoding", "identity")
						if answer.StatusCode != 200 || answer.err != nil {
							t.Fatalf("%s: %d %v %.300s", path, answer.StatusCode, answer.err, answer.body)
						}
						before := offset
						if accept == rawType {
							n += countRecords(t, []byte(answer.body))
							why = answer.Header.Get("X-Kafka-End") + answer.Trailer.Get("X-Kafka-End")
							fmt.Sscan(answer.Header.Get("X-Kafka-Next-Offset")+answer.Trailer.Get("X-Kafka-Next-Offset"), &offset)
						} else {
							var records []shownRecord
							records, offset, why = page(t, accept, answer)
							got = append(got, records...)
						}
						if why == "limit" && offset <= before {
							t.Fatalf("%s: no progress from %d to %d", accept, before, offset)
						}
						if why != "limit" {
							if stop < 0 {
								stop = offset
							}
							if offset != stop || why == "tier" && offset != end || why == "undecided" && level == "read_uncommitted" {
								t.Fatalf("%s: ends at %d (%s), others at %d, the tier at %d", accept, offset, why, stop, end)
							}
						}
					}
					var want []testkit.Record
					for _, w := range testkit.Expected(t, dir, level) {
						if w.Offset < stop {
							want = append(want, w)
						}
					}
					if accept == rawType {
						got = make([]shownRecord, n)
					}
					if len(got) != len(want) || len(want) == 0 {
						t.Fatalf("%s: %d records, want %d", accept, len(got), len(want))
					}
					for i, w := range want {
						g := got[i]
						if accept == rawType {
							break
						}
						if g.Offset != w.Offset || g.Timestamp != w.Timestamp || (g.Type == "LOG_APPEND_TIME") != w.AppendTime || len(g.Headers) != len(w.Headers) ||
							!sameBytes(t, g.Key, w.Key) || w.ValueSHA256 == "" && !sameBytes(t, g.Value, w.Value) {
							t.Fatalf("%s: got %+v, want %+v", accept, g, w)
						}
						for j, h := range w.Headers {
							if g.Headers[j].Key != h.Key || !sameBytes(t, g.Headers[j].Value, h.Value) {
								t.Fatalf("%s: header %+v, want %+v", accept, g.Headers[j], h)
							}
						}
					}
				}
			})
		}
	}
}

// countRecords decodes whole batches and counts the records in them that a consumer sees.
func countRecords(t *testing.T, batches []byte) (n int) {
	t.Helper()
	d := segment.NewDecoder(1<<30, nil)
	for len(batches) > 0 {
		h, err := segment.ParseHeader(batches, int64(len(batches)))
		if err != nil {
			t.Fatal(err)
		}
		b := batches[:h.Size()]
		batches = batches[h.Size():]
		if err := segment.VerifyCRC(&h, b); err != nil {
			t.Fatal(err)
		}
		if h.IsControl() {
			continue
		}
		if err := d.Open(b); err != nil {
			t.Fatal(err)
		}
		var rec segment.Record
		for {
			ok, err := d.Next(&rec)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
		d.Close()
	}
	return n
}

// TestRefusalsOfTheRealRead holds codes and bounds together end to end.
func TestRefusalsOfTheRealRead(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	end := r.addSample(t, segment.UUID{1}, "plain-0")
	for _, c := range []struct{ path, want string }{
		{fmt.Sprintf("/topics/plain/partitions/0/records?offset=%d", end+1), fmt.Sprintf(`"log_start_offset":0,"local_log_start_offset":null,"tiered_end_offset":%d}`, end)},
		{"/topics/plain/partitions/0/records?offset=earliest_local", `{"error_code":40001,"message":"parameter offset: `},
		{"/topics/plain/partitions/1/records?offset=0", `{"error_code":40402,`},
		{"/topics/nothing/partitions/0/records?offset=0", `{"error_code":40401,`},
		{"/topics/plain/partitions/0/segments/99999/log", `{"error_code":40404,`},
		{fmt.Sprintf("/topics/plain/partitions/0/records?offset=%d", end), `"next":null,"next_offset":` + fmt.Sprint(end) + `,"end":"tier"},"data":[]}`},
		{"/topics/plain/partitions/0/records?offset=latest", `"end":"tier"},"data":[]}`},
		{"/topics/plain/partitions/0/records?offset=3&end_offset=3", `"end":"range"},"data":[]}`},
	} {
		for _, accept := range []string{"application/json", "application/x-ndjson", rawType} {
			got := r.get(t, c.path, "Accept", accept)
			if (accept == "application/json" || got.StatusCode != 200) && !strings.Contains(got.body, c.want) {
				t.Errorf("%s: %d %s, want %s", c.path, got.StatusCode, got.body, c.want)
			}
			if accept == rawType && got.StatusCode == 200 && (got.ContentLength != 0 || got.Header.Get("X-Kafka-End") == "") {
				t.Errorf("%s: %v", c.path, got.Header)
			}
		}
	}
}

// TestSegmentFilesAreTheBrokers compares files and ranges of them with the sample's, over chunk borders.
func TestSegmentFilesAreTheBrokers(t *testing.T) {
	r := newRealHarness(t, 4<<10, 1<<20)
	r.addSample(t, segment.UUID{1}, "plain-0")
	files, err := sampleFiles()
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		ID    string
		Base  int64 `json:"base_offset"`
		Bytes int64
	}
	if err := json.Unmarshal([]byte(r.get(t, "/topics/plain/partitions/0/segments").body), &list); err != nil || len(list) < 2 {
		t.Fatal(err, len(list))
	}
	for _, s := range list {
		log := files["plain-0/"+segment.FileName(s.Base, ".log")]
		for _, path := range []string{s.ID, fmt.Sprint(s.Base)} {
			path = "/topics/plain/partitions/0/segments/" + path
			if got := r.get(t, path+"/log"); got.body != string(log) || got.ContentLength != s.Bytes || !strings.HasPrefix(got.Header.Get("ETag"), `"`) {
				t.Errorf("%s: %d of %d bytes, %v", path, len(got.body), len(log), got.Header)
			}
			for _, at := range [][2]int{{0, 0}, {4095, 4096}, {1, len(log) - 2}, {len(log) - 1, len(log) - 1}} {
				got := r.get(t, path+"/log", "Range", fmt.Sprintf("bytes=%d-%d", at[0], at[1]))
				if got.StatusCode != 206 || got.body != string(log[at[0]:at[1]+1]) {
					t.Errorf("%s %v: %d, %d bytes", path, at, got.StatusCode, len(got.body))
				}
			}
			if got := r.get(t, path+"/timeindex"); got.body != string(files["plain-0/"+segment.FileName(s.Base, ".timeindex")]) {
				t.Errorf("%s: time index of %d bytes", path, len(got.body))
			}
			if got := r.get(t, path+"/txnindex"); got.StatusCode != 404 || !strings.Contains(got.body, "40404") {
				t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
			}
		}
	}
}

// addEndless adds a log of n copies of one real batch at ascending offsets, made as it is read. Offset and leader
// epoch are outside a batch's checksum, so each copy is a valid batch.
func (r *realHarness) addEndless(tb testing.TB, size int64) (batchSize int) {
	tb.Helper()
	files, err := sampleFiles()
	if err != nil {
		tb.Fatal(err)
	}
	log := files["plain-0/"+segment.FileName(0, ".log")]
	h, err := segment.ParseHeader(log, int64(len(log)))
	if err != nil {
		tb.Fatal(err)
	}
	one := slices.Clone(log[:h.Size()])
	span := int64(h.LastOffsetDelta) + 1
	n := size / h.Size()
	fill := func(dst []byte, off int64) {
		b := slices.Clone(one)
		for len(dst) > 0 {
			i := off / int64(len(b))
			binary.BigEndian.PutUint64(b, uint64(i*span))
			k := copy(dst, b[off%int64(len(b)):])
			dst, off = dst[k:], off+int64(k)
		}
	}
	r.add(tb, segment.UUID{9}, "endless", 0, 0, n*span-1, n*h.Size(), fill, &segment.Files{Decided: true})
	return len(one)
}

// TestExportIsWhole: a stream with an end has every record up to it, over segments and beyond the default and the bound
// of JSON answers; JSON says that it has not.
func TestExportIsWhole(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20, func(c *Config) { c.MaxResponseBytes, c.Decode = 512<<10, budget.New(8<<20) })
	one := sampleBatch(t, 0)
	span, size := spanOf(one), int64(len(one))
	perSegment, segments := (2<<20)/size, int64(4)
	for i := range segments {
		base := i * perSegment * span
		var log []byte
		for n := range perSegment {
			log = append(log, sampleBatch(t, base+n*span)...)
		}
		r.add(t, segment.UUID{7}, "export", 0, base, base+perSegment*span-1, int64(len(log)),
			func(dst []byte, off int64) { copy(dst, log[off:]) }, &segment.Files{Decided: true})
	}
	end := segments*perSegment*span - 3
	path := fmt.Sprintf("/topics/export/partitions/0/records?offset=earliest&end_offset=%d&format=", end)
	for _, format := range []string{"ndjson", "sse", "raw"} {
		got := r.get(t, path+format)
		rows := strings.Count(got.body, `"offset":`)
		if format == "raw" {
			rows = countRecords(t, []byte(got.body)) - 3 // the last batch comes whole
		}
		if got.err != nil || int64(rows) != end || got.Trailer.Get("X-Kafka-End") != "range" || got.Trailer.Get("X-Kafka-Next-Offset") != fmt.Sprint(end) {
			t.Errorf("%s: %d rows of %d, %v %v", format, rows, end, got.Trailer, got.err)
		}
	}
	if list := decodeList(t, r.get(t, path+"json")); int64(len(list.Data)) >= end || list.Metadata.End != "limit" || list.Metadata.Next == nil {
		t.Errorf("JSON: %d records, %+v", len(list.Data), list.Metadata)
	}
}

const endlessPath = "/topics/endless/partitions/0/records"

// TestStalledClientsHoldNoMoreThanTheBound is the promise that memory stays bounded whatever clients do: a thousand of
// them stop reading in the middle of large answers, and a new one is served all the same.
func TestStalledClientsHoldNoMoreThanTheBound(t *testing.T) {
	clients, memory := 1000, int64(96<<20)
	if invariants.Enabled || testing.Short() {
		clients, memory = 100, 16<<20
	}
	r := newRealHarness(t, 1<<20, memory, func(c *Config) { c.StallTimeout = time.Minute })
	r.addEndless(t, 512<<20)
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	formats := []string{rawType, "application/x-ndjson", "application/json"}
	for i := range clients {
		conn, err := narrow.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s?offset=%d&max_bytes=134217728 HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", endlessPath, i*1000, formats[i%len(formats)])
	}
	until(t, "the slabs are held", func() bool {
		// Those that were cut meanwhile had held some.
		return r.metric("stalled_clients") > 0 && r.metric("in_flight_requests")+r.metric("cut_clients_total", "pressure") > float64(memory>>20)
	})
	for i := range 5 {
		got := r.get(t, fmt.Sprintf("%s?offset=%d&max_bytes=3000000", endlessPath, 700_000+i*50_000), "Accept", rawType)
		if got.StatusCode != 200 || got.err != nil || len(got.body) == 0 {
			t.Fatalf("new client %d: %d %v %.200s", i, got.StatusCode, got.err, got.body)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > memory+r.decode.Size()+256<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if cut := r.metric("cut_clients_total", "pressure"); cut == 0 {
		t.Error("no client was cut: the memory was never short")
	} else {
		t.Logf("%v of %d clients cut, heap grown by %d MiB", cut, clients, (int64(after.HeapInuse)-int64(before.HeapInuse))>>20)
	}
}

// TestStalledLinesDoNotStarveOthers: clients that ask for ndjson and take nothing use up their share of the decode
// memory. Listings and JSON do not even notice, and none is cut for them; one more who wants ndjson has the
// longest-stalled cut.
func TestStalledLinesDoNotStarveOthers(t *testing.T) {
	const decode, chunk = 8 << 20, 64 << 10
	const holders = decode / 8 * 3 / engine.BufferSize
	r := newRealHarness(t, chunk, 64<<20, func(c *Config) {
		c.StallTimeout, c.Decode = 10*time.Minute, budget.NewWithReserve(decode, decode/16)
	})
	r.addEndless(t, 64<<20)
	r.addLog(t, "zipped", 0, bomb(decode/16))
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	cut := func() float64 { return r.metric("cut_clients_total", "pressure") }
	ask := func(i int) {
		conn, err := narrow.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET %s?offset=%d&end_offset=210000 HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\n\r\n", endlessPath, i*500)
	}
	for i := range holders {
		ask(i)
	}
	until(t, "all have stalled", func() bool { return r.metric("stalled_clients") == holders })
	for path, least := range map[string]int{
		"/topics": 1, "/topics/endless": 1, endlessPath + "?offset=700&max_records=3": 1, endlessPath + "?offset=700&max_records=3&format=v2.text": 1,
		"/topics/zipped/partitions/0/records?offset=0&encoding=base64": decode / 16, endlessPath + "?offset=700&max_bytes=1000000": 900_000,
	} {
		if got := r.get(t, path); got.StatusCode != 200 || got.err != nil || len(got.body) < least {
			t.Errorf("%s: %d %v, %d bytes: %.200s", path, got.StatusCode, got.err, len(got.body), got.body)
		}
	}
	if n := cut(); n > 0 {
		t.Errorf("%v were cut for answers that are none of theirs", n)
	}
	ask(holders)
	until(t, "one more has had others cut", func() bool { return cut() > 0 })
	got := r.get(t, endlessPath+"?offset=700&max_records=3&format=ndjson")
	if n := cut(); got.StatusCode != 200 || got.err != nil || n >= holders {
		t.Errorf("%d %v, %v of %d cut", got.StatusCode, got.err, n, holders)
	}
}

// TestRawAnswerFromMemoryAllocatesLittle counts what one request costs from its first byte to its last, fasthttp and
// fetch included.
func TestRawAnswerFromMemoryAllocatesLittle(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	r := newRealHarness(t, 1<<20, 32<<20)
	r.addEndless(t, 64<<20)
	conn := r.dial(t)
	br := bufio.NewReaderSize(conn, 64<<10)
	request := []byte("GET " + endlessPath + "?offset=100&max_bytes=500000 HTTP/1.1\r\nHost: x\r\nAccept: " + rawType + "\r\n\r\n")
	ask := func() {
		conn.Write(request)
		skipAnswer(t, br)
	}
	for range 50 {
		ask()
	}
	if n := testing.AllocsPerRun(500, ask); n > 5 {
		t.Errorf("%v allocations a request, want at most 5", n)
	} else {
		t.Logf("%v allocations a request", n)
	}
}

// skipAnswer reads an answer with a length without allocating.
func skipAnswer(tb testing.TB, br *bufio.Reader) {
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			tb.Fatal(err)
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			n, _ := digits(value[:len(value)-2])
			length = int(n)
		}
		if len(line) == 2 {
			break
		}
	}
	if length == 0 {
		tb.Fatal("no length")
	}
	if _, err := br.Discard(length); err != nil {
		tb.Fatal(err)
	}
}
