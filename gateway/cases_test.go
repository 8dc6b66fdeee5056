package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/budget"
	"coldtap/segment"
	"coldtap/tier"
)

// sampleBatch is one real batch of a broker, renumbered to begin at an offset.
func sampleBatch(tb testing.TB, base int64) []byte {
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
	b := slices.Clone(log[:h.Size()])
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

func reseal(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

func spanOf(b []byte) int64 { return int64(binary.BigEndian.Uint32(b[23:])) + 1 }

func (r *realHarness) addLog(tb testing.TB, name string, end int64, log []byte) {
	r.add(tb, segment.UUID{8, byte(len(r.logs))}, name, 0, 0, end, int64(len(log)), func(dst []byte, off int64) { copy(dst, log[off:]) }, &segment.Files{Decided: true})
}

// TestE9NoCutBatch: the batch that does not fit any more is left out, never cut and never padded.
func TestE9NoCutBatch(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	size := r.addEndless(t, 1<<20)
	span := spanOf(sampleBatch(t, 0))
	path := fmt.Sprintf("%s?offset=0&max_bytes=%d", endlessPath, size*5/2)
	raw := r.get(t, path, "Accept", rawType)
	if len(raw.body) != 2*size || countRecords(t, []byte(raw.body)) == 0 || raw.Header.Get("X-Kafka-Next-Offset") != fmt.Sprint(2*span) {
		t.Errorf("%d bytes of batches of %d, %v", len(raw.body), size, raw.Header)
	}
	for _, accept := range []string{"application/json", "application/x-ndjson", eventType, binaryV2} {
		records, next, end := page(t, accept, r.get(t, path, "Accept", accept))
		if int64(len(records)) != 2*span || next != 2*span || end != "limit" {
			t.Errorf("%s: %d records, next %d, %s", accept, len(records), next, end)
		}
	}
}

// TestG9LyingFields: lengths and counts that lie are an error that names the place, and what lies before is served. It
// is also L4: none of it ends the process.
func TestG9LyingFields(t *testing.T) {
	lies := []struct {
		name string
		lie  func(b []byte)
	}{
		{"length 0xFFFFFFF0", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0xFFFFFFF0) }},
		{"length 0x7FFFFFF0", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0x7FFFFFF0) }},
		{"length 0", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0) }},
		{"length 13", func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) }},
		{"count -1", func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0xFFFFFFFF); reseal(b) }},
		{"count 0x7FFFFFFF", func(b []byte) { binary.BigEndian.PutUint32(b[57:], 0x7FFFFFFF); reseal(b) }},
		{"last delta -5", func(b []byte) { binary.BigEndian.PutUint32(b[23:], 0xFFFFFFFB); reseal(b) }},
		{"flipped bit", func(b []byte) { b[70] ^= 1 }},
	}
	r := newRealHarness(t, 64<<10, 4<<20)
	good := sampleBatch(t, 0)
	span := spanOf(good)
	for i, c := range lies {
		bad := sampleBatch(t, span)
		c.lie(bad)
		name := fmt.Sprintf("lie-%d", i)
		r.addLog(t, name, 3*span-1, slices.Concat(good, bad, sampleBatch(t, 2*span)))
		path := "/topics/" + name + "/partitions/0/records?offset="
		for _, accept := range []string{"application/json", "application/x-ndjson", eventType, binaryV2, rawType} {
			// What streams breaks behind the last sound batch; what has a length ends there.
			got, breaks := r.get(t, path+"0", "Accept", accept), error(nil)
			if accept == "application/x-ndjson" || accept == eventType {
				breaks = io.ErrUnexpectedEOF
			}
			served := 0
			if accept == rawType {
				served = countRecords(t, []byte(got.body))
			} else {
				records, next, _ := page(t, accept, got)
				behind := accept == eventType && next >= 2*span // its last event is the error
				if served = len(records); next != span && accept != "application/x-ndjson" && !behind {
					t.Errorf("%s as %s: next %d", c.name, accept, next)
				}
			}
			if got.StatusCode != 200 || !errors.Is(got.err, breaks) || int64(served) != span {
				t.Errorf("%s as %s: %d, %d records of %d, %v", c.name, accept, got.StatusCode, served, span, got.err)
			}
			got = r.get(t, fmt.Sprint(path, span), "Accept", accept)
			if got.StatusCode != 500 || !strings.HasPrefix(got.body, `{"error_code":50002,`) || !strings.Contains(got.body, fmt.Sprintf(`"position":%d,"next_offset":`, len(good))) {
				t.Errorf("%s as %s: %d %s", c.name, accept, got.StatusCode, got.body)
			}
		}
	}
	if got := r.get(t, "/topics"); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

// bomb is a batch of one record of size zero bytes, compressed.
func bomb(size int) []byte {
	record := []byte{0, 0, 0, 1} // attributes, timestamp and offset deltas, a null key
	record = binary.AppendVarint(record, int64(size))
	record = binary.AppendVarint(append(record, make([]byte, size)...), 0)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(binary.AppendVarint(nil, int64(len(record))))
	w.Write(record)
	w.Close()
	b := binary.BigEndian.AppendUint64(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(49+z.Len()))
	b = append(b, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, 1000)
	b = binary.BigEndian.AppendUint64(b, 1000)
	b = binary.BigEndian.AppendUint64(b, 1<<64-1)
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1)
	b = append(b, z.Bytes()...)
	reseal(b)
	return b
}

// TestG8Bombs: what expands beyond the decode memory is an error of that batch, or "come back" while others use that
// memory, however many ask at once; raw readers get it as it is stored.
func TestG8Bombs(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20, func(c *Config) { c.Decode = budget.New(8 << 20) })
	small, large := bomb(1<<20), bomb(48<<20)
	r.addLog(t, "small", 0, small)
	r.addLog(t, "large", 0, large)
	if got := r.get(t, "/topics/small/partitions/0/records?offset=0&encoding=base64"); got.StatusCode != 200 || len(got.body) < 1<<20 {
		t.Fatalf("one that fits: %d %.200s", got.StatusCode, got.body)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			accept := []string{"application/json", "application/x-ndjson", eventType, binaryV2}[i%4]
			got := r.get(t, "/topics/large/partitions/0/records?offset=0", "Accept", accept)
			busy := got.StatusCode == 503 && strings.HasPrefix(got.body, `{"error_code":50301,`) && got.Header.Get("Retry-After") != ""
			if !busy && (got.StatusCode != 500 || !strings.HasPrefix(got.body, `{"error_code":50003,`)) {
				t.Errorf("%s: %d %.300s", accept, got.StatusCode, got.body)
			}
		})
	}
	all.Wait()
	for _, accept := range []string{"application/json", "application/x-ndjson", eventType, binaryV2} {
		got := r.get(t, "/topics/large/partitions/0/records?offset=0", "Accept", accept)
		if got.StatusCode != 500 || !strings.HasPrefix(got.body, `{"error_code":50003,`) {
			t.Errorf("alone, %s: %d %.300s", accept, got.StatusCode, got.body)
		}
	}
	if got := r.get(t, "/topics/large/partitions/0/offsets?timestamp=1000"); got.StatusCode != 500 || !strings.Contains(got.body, "50003") {
		t.Errorf("by time: %d %s", got.StatusCode, got.body)
	}
	if got := r.get(t, "/topics/large/partitions/0/records?offset=0", "Accept", rawType); got.body != string(large) {
		t.Errorf("raw: %d, %d bytes of %d", got.StatusCode, len(got.body), len(large))
	}
}

// TestH3DeletedWhileStreaming: an answer whose segment is deleted under it breaks visibly, and the next request learns
// the new start.
func TestH3DeletedWhileStreaming(t *testing.T) {
	for _, accept := range []string{rawType, "application/x-ndjson", eventType} {
		t.Run(accept, func(t *testing.T) {
			r := newRealHarness(t, 256<<10, 4<<20)
			r.addEndless(t, 64<<20)
			partition := tier.PartitionID{Topic: segment.UUID{9}}
			p, _ := r.tier.Snapshot().Partition(partition)
			seg, _ := p.Find(0)
			conn := r.dial(t)
			fmt.Fprintf(conn, "GET %s?offset=0&max_bytes=67108864 HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", endlessPath, accept)
			br := bufio.NewReader(conn)
			resp, err := http.ReadResponse(br, nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
				t.Fatal(err)
			}
			if rejected := r.tier.Apply(tier.SegmentUpdated{Partition: partition, ID: seg.ID, State: tier.DeleteStarted, At: 2},
				tier.BoundsChanged{Partition: partition, Bounds: tier.Bounds{Start: seg.EndOffset + 1, LocalStart: -1, HighWatermark: -1, LastStable: -1}}); len(rejected) > 0 {
				t.Fatalf("%+v", rejected)
			}
			rest, err := io.ReadAll(resp.Body)
			errorEvent := strings.Contains(string(rest[max(0, len(rest)-500):]), `{"error_code":41601,`)
			if !errors.Is(err, io.ErrUnexpectedEOF) || errorEvent != (accept == eventType) {
				t.Errorf("%d bytes more, %v, the last %q", len(rest), err, rest[max(0, len(rest)-500):])
			}
			got := r.get(t, endlessPath+"?offset=0", "Accept", accept)
			if got.StatusCode != 416 || !strings.Contains(got.body, fmt.Sprintf(`"log_start_offset":%d,`, seg.EndOffset+1)) {
				t.Errorf("the next: %d %s", got.StatusCode, got.body)
			}
		})
	}
}

// A batch that fits decoded, but not together with its JSON, gets its error at once and is never invited to come back.
// What is sent while it is read has it.
func TestBatchWhoseJSONCannotFitIsNotBusy(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20, func(c *Config) { c.Decode = budget.New(8 << 20) })
	r.addLog(t, "zeros", 0, bomb(1250<<10)) // as JSON six times as long: 7.3 MiB
	got := r.get(t, "/topics/zeros/partitions/0/records?offset=0")
	if got.StatusCode != 500 || !strings.Contains(got.body, `"error_code":50003`) || !strings.Contains(got.body, "limits.decode_memory") || !strings.Contains(got.body, `"next_offset":1}`) {
		t.Errorf("%d %.300s", got.StatusCode, got.body)
	}
	for _, accept := range []string{"application/x-ndjson", eventType} {
		got := r.get(t, "/topics/zeros/partitions/0/records?offset=0", "Accept", accept)
		if got.StatusCode != 200 || got.err != nil || strings.Count(got.body, `\u0000`) != 1250<<10 {
			t.Errorf("%s: %d %v %.300s", accept, got.StatusCode, got.err, got.body)
		}
	}
}
