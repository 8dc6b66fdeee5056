package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestGoldenRecords(t *testing.T) {
	const t0 = 1700000000000
	a40 := bytes.Repeat([]byte("a"), 40)
	for id, want := range map[string][]Record{
		"A1": {
			{Offset: 100, Timestamp: t0, LeaderEpoch: 5, Key: []byte("k1"), Value: []byte("v1"),
				Headers: []RecordHeader{{[]byte("h"), []byte("x")}}},
			{Offset: 101, Timestamp: t0 + 5, LeaderEpoch: 5, Value: []byte("v2")},
			{Offset: 102, Timestamp: t0 - 10, LeaderEpoch: 5, Key: []byte("k3")},
		},
		"A2":  {{Offset: 0, Timestamp: 0x1a227796c1a, TimestampType: LogAppendTime, LeaderEpoch: 3, Value: []byte("a")}},
		"A3":  nil,
		"A6":  {{Offset: 10, Timestamp: -1, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}},
		"A7":  {{Offset: 10, Timestamp: 1000, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}},
		"A8":  {{Offset: 10, Timestamp: -1, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}, {Offset: 11, Timestamp: -1, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("w")}},
		"A9":  {{Offset: 10, Timestamp: 1000, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}, {Offset: 11, Timestamp: 1001, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("w")}},
		"A10": {{Offset: 10, Timestamp: -1, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}},
		"A11": {{Offset: 10, Timestamp: 1000, LeaderEpoch: -1, Key: []byte("k"), Value: []byte("v")}},
		"A12": {{Offset: 0, Timestamp: 1000, LeaderEpoch: -1, Value: a40}},
		"A13": {{Offset: 0, Timestamp: 1000, LeaderEpoch: -1, Value: a40}},
		"A14": {{Offset: 0, Timestamp: 1000, LeaderEpoch: -1, Value: a40}},
		"A15": {{Offset: 0, Timestamp: 1000, LeaderEpoch: -1, Value: a40}},
	} {
		if got := mustDecode(t, goldenBytes(t, id)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", id, got, want)
		}
	}
}

// A delete horizon sits in the base timestamp's field; records' times still come out right, with negative deltas.
func TestDeleteHorizon(t *testing.T) {
	b := buildBatch(5, 0x40, 0, 1, recordBytes([]testRecord{{timestamp: -86_400_000, key: []byte("k")}}))
	if r := mustDecode(t, b)[0]; r.Timestamp != 1_700_000_000_000-86_400_000 || r.Value != nil {
		t.Fatalf("%+v", r)
	}
}

func TestNullAndEmptyDiffer(t *testing.T) {
	r := mustDecode(t, buildBatch(0, 0, 0, 1, recordBytes([]testRecord{{
		key: []byte{}, value: []byte{},
		headers: []RecordHeader{{[]byte{}, nil}, {[]byte("h"), []byte{}}, {[]byte("h"), []byte("again")}},
	}})))[0]
	if r.Key == nil || r.Value == nil {
		t.Error("empty key or value became null")
	}
	if h := r.Headers; len(h) != 3 || h[0].Key == nil || h[0].Value != nil || h[1].Value == nil || string(h[2].Value) != "again" {
		t.Errorf("headers %+v", h)
	}
	if r := mustDecode(t, buildBatch(0, 0, 0, 1, recordBytes([]testRecord{{}})))[0]; r.Key != nil || r.Value != nil {
		t.Error("null key or value became empty")
	}
}

func TestA2FirstRecordAboveTheBase(t *testing.T) {
	b := buildBatch(100, 0, 9, 2, recordBytes([]testRecord{{delta: 5}, {delta: 9}}))
	if got := offsets(mustDecode(t, b)); !slices.Equal(got, []int64{105, 109}) {
		t.Fatalf("offsets %d", got)
	}
}

// The header of an emptied batch may still name a codec; there is nothing to decompress.
func TestA3BatchWithoutRecords(t *testing.T) {
	for codec := int16(0); codec < 8; codec++ {
		b := buildBatch(10, codec, 9, 0, nil)
		if records := mustDecode(t, b); len(records) != 0 {
			t.Fatalf("codec %d: %d records", codec, len(records))
		}
		h, err := ParseHeader(b, 1000)
		if err != nil || h.LastOffset() != 19 {
			t.Fatalf("codec %d: last offset %d, %v", codec, h.LastOffset(), err)
		}
	}
}

func TestA6LastRecordBelowTheLastOffset(t *testing.T) {
	b := buildBatch(30, 0, 9, 7, recordBytes(plainRecords(30, 7)))
	wantPlain(t, mustDecode(t, b), 30, 7)
	if h, _ := ParseHeader(b, 1000); h.LastOffset() != 39 {
		t.Fatalf("last offset %d", h.LastOffset())
	}
}

func TestA7SegmentsOfOneBatch(t *testing.T) {
	for base := range int64(3) {
		n := 0
		for b, err := range Batches(plainBatch(base, 1)) {
			if err != nil {
				t.Fatal(err)
			}
			wantPlain(t, mustDecode(t, b.Bytes), base, 1)
			n++
		}
		if n != 1 {
			t.Fatalf("%d batches", n)
		}
	}
}

func TestF4LastOffsetAtTheInt32Edge(t *testing.T) {
	b := buildBatch(7, 0, math.MaxInt32, 2, recordBytes([]testRecord{{delta: 0}, {delta: math.MaxInt32}}))
	if got := offsets(mustDecode(t, b)); !slices.Equal(got, []int64{7, 7 + math.MaxInt32}) {
		t.Fatalf("offsets %d", got)
	}
}

func TestG1MixedMagics(t *testing.T) {
	log := append(buildMessage(1, 0, 0, 5, nil, []byte("value-0")), buildMessage(1, 1, 0, 6, nil, []byte("value-1"))...)
	var inner []byte
	for i := range int64(4) {
		inner = append(inner, buildMessage(1, i, 0, 7+i, nil, fmt.Appendf(nil, "value-%d", 2+i))...)
	}
	log = append(log, buildMessage(1, 5, 1, 10, nil, gzipped(t, inner))...)
	log = append(log, plainBatch(6, 4)...)
	var records []Record
	d := NewDecoder(1<<20, nil)
	defer d.Close()
	for b, err := range Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		if err := VerifyCRC(&b.Header, b.Bytes); err != nil {
			t.Fatal(err)
		}
		got, err := decodeAll(d, b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, got...)
	}
	wantPlain(t, records, 0, 10)
}

func TestMalformedRecords(t *testing.T) {
	one := appendRecord(nil, testRecord{key: []byte("key"), value: []byte("value"), headers: []RecordHeader{{[]byte("h"), nil}}})
	header := func(keyLength int64, more ...byte) []byte {
		b := []byte{0, 0, 0, 1, 1} // attributes, deltas, null key and value
		b = appendVarint(b, 1)
		b = append(appendVarint(b, keyLength), more...)
		return append(appendVarint(nil, int64(len(b))), b...)
	}
	short := bytes.Clone(one)
	short[0] -= 2
	long := append(bytes.Clone(one), 0)
	long[0] += 2
	for _, c := range []struct {
		name             string
		lastDelta, count int32
		payload          []byte
	}{
		{"length one short", 0, 1, append(bytes.Clone(short), 0)},
		{"length one long", 0, 1, long},
		{"length beyond the batch", 0, 1, append([]byte{0x7e}, one[1:]...)},
		{"length negative", 0, 1, append([]byte{0x01}, one[1:]...)},
		{"length of six bytes", 0, 1, append(bytes.Repeat([]byte{0x80}, 5), one...)},
		{"cut", 0, 1, one[:len(one)-1]},
		{"bytes after the last record", 0, 1, append(bytes.Clone(one), 0)},
		{"a record too many", 1, 1, slices.Concat(one, appendRecord(nil, testRecord{delta: 1}))},
		{"a record too few", 1, 2, slices.Concat(one, bytes.Repeat([]byte{0}, 7))},
		{"same offset twice", 1, 2, slices.Concat(one, one)},
		{"offsets descend", 2, 2, recordBytes([]testRecord{{delta: 2}, {delta: 1}})},
		{"offset below the batch", 2, 1, recordBytes([]testRecord{{delta: -1}})},
		{"offset above the batch", 2, 1, recordBytes([]testRecord{{delta: 3}})},
		{"key beyond the record", 0, 1, []byte{0x0e, 0, 0, 0, 0x7e, 1, 1, 0}},
		{"timestamp of eleven bytes", 0, 1, append(append([]byte{0x22, 0}, bytes.Repeat([]byte{0x80}, 10)...), 0, 0, 1, 1, 0, 0)},
		{"header count negative", 0, 1, []byte{0x0c, 0, 0, 0, 1, 1, 1}},
		{"header count huge", 0, 1, append([]byte{0x14, 0, 0, 0, 1, 1}, 0xfe, 0xff, 0xff, 0xff, 0x0f)},
		{"header key null", 0, 1, header(-1, 1)},
		{"header key beyond the record", 0, 1, header(5, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := buildBatch(50, 0, c.lastDelta, c.count, c.payload)
			d := NewDecoder(1<<20, nil)
			_, err := decodeAll(d, b)
			wantKind(t, err, Corrupt)
			if ok, again := d.Next(new(Record)); ok || again != err {
				t.Errorf("after the error: %t, %v", ok, again)
			}
			b = buildBatch(50, 1, c.lastDelta, c.count, gzipped(t, c.payload))
			_, err = decodeAll(d, b)
			wantKind(t, err, Corrupt)
			if e := err.(*Error); e.Position >= HeaderSize {
				t.Errorf("position %d in bytes that the caller has not got", e.Position)
			}
			wantPlain(t, mustDecode(t, plainBatch(9, 3)), 9, 3)
		})
	}
}

// Kafka's own reader takes any negative length for null, and encodings longer than need be.
func TestLaxAsKafka(t *testing.T) {
	payload := []byte{0x12, 0, 0, 0, 0x09, 0x83, 0x80, 0x80, 0x00, 0} // key length -5, value length -2 in four bytes
	r := mustDecode(t, buildBatch(0, 0, 0, 1, payload))[0]
	if r.Key != nil || r.Value != nil {
		t.Fatalf("%+v", r)
	}
}

func TestOpenWantsExactlyTheBatch(t *testing.T) {
	b := plainBatch(3, 2)
	d := NewDecoder(1<<20, nil)
	for n := range b {
		wantKind(t, d.Open(b[:n]), Truncated)
	}
	wantKind(t, d.Open(append(bytes.Clone(b), 0)), Corrupt)
	wantPlain(t, mustDecode(t, b), 3, 2)
}

func TestNextOutsideABatch(t *testing.T) {
	d := NewDecoder(1<<20, nil)
	var rec Record
	if ok, err := d.Next(&rec); ok || err != nil {
		t.Errorf("before Open: %t, %v", ok, err)
	}
	if err := d.Open(plainBatch(0, 2)); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if ok, err := d.Next(&rec); ok || err != nil {
		t.Errorf("after Close: %t, %v", ok, err)
	}
	d.Close()
}

// Uncompressed batches are never copied.
func TestRecordsAreViews(t *testing.T) {
	b := plainBatch(0, 1)
	d := NewDecoder(1<<20, nil)
	var rec Record
	if err := d.Open(b); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(&rec); err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("value-0"))] = 'V'
	if string(rec.Value) != "Value-0" {
		t.Fatalf("%q is a copy", rec.Value)
	}
	if cap(rec.Value) != len(rec.Value) {
		t.Error("appending to a value would overwrite the batch")
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	records := plainRecords(0, 50)
	for i := range records {
		records[i].headers = []RecordHeader{{[]byte("a"), []byte("b")}, {[]byte("c"), nil}}
	}
	payload := recordBytes(records)
	for codec, b := range map[Codec][]byte{
		None:   buildBatch(0, 0, 49, 50, payload),
		Gzip:   buildBatch(0, 1, 49, 50, gzipped(t, payload)),
		Snappy: buildBatch(0, 2, 49, 50, xerial(payload)),
		LZ4:    buildBatch(0, 3, 49, 50, lz4Frame(t, payload)),
		Zstd:   buildBatch(0, 4, 49, 50, zstdStream(t, payload)),
	} {
		if raceEnabled && codec != None {
			continue // sync.Pool drops at random under the race detector
		}
		d := NewDecoder(1<<20, nil)
		var rec Record
		if n := testing.AllocsPerRun(200, func() {
			if err := d.Open(b); err != nil {
				t.Fatal(err)
			}
			for {
				ok, err := d.Next(&rec)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", codec, n)
		}
		d.Close()
	}
}

// testBudget counts, and refuses above its limit.
type testBudget struct{ used, peak, limit int64 }

var errNoBudget = errors.New("nothing left")

func (b *testBudget) Reserve(n int64) error {
	if n <= 0 {
		return fmt.Errorf("reserving %d", n)
	}
	if b.used+n > b.limit {
		return errNoBudget
	}
	b.used += n
	b.peak = max(b.peak, b.used)
	return nil
}

func (b *testBudget) Release(n int64) { b.used -= n }

func TestBudget(t *testing.T) {
	payload := recordBytes(slices.Repeat([]testRecord{{value: bytes.Repeat([]byte("coldtap "), 40_000)}}, 1))
	for codec, compressed := range map[Codec][]byte{
		Gzip: gzipped(t, payload), Snappy: xerial(payload), LZ4: lz4Frame(t, payload), Zstd: zstdStream(t, payload),
	} {
		t.Run(codec.String(), func(t *testing.T) {
			b := buildBatch(0, int16(codec), 0, 1, compressed)
			budget := &testBudget{limit: math.MaxInt64}
			d := NewDecoder(8<<20, budget)
			if _, err := decodeAll(d, b); err != nil {
				t.Fatal(err)
			}
			if budget.used < int64(len(payload)) || budget.used != int64(cap(d.out.b)) {
				t.Errorf("%d bytes reserved for %d, buffer %d", budget.used, len(payload), cap(d.out.b))
			}
			held := budget.used
			if _, err := decodeAll(d, b); err != nil || budget.used != held {
				t.Errorf("again: %d bytes reserved, %v", budget.used, err)
			}
			if _, err := decodeAll(d, plainBatch(0, 5)); err != nil || budget.used != held {
				t.Errorf("uncompressed: %d bytes reserved, %v", budget.used, err)
			}
			d.Close()
			if budget.used != 0 {
				t.Errorf("%d bytes reserved after Close", budget.used)
			}

			budget.limit = 100_000
			err := d.Open(b)
			wantKind(t, err, OverBudget)
			if !errors.Is(err, errNoBudget) {
				t.Errorf("%v hides the budget's error", err)
			}
			d.Close()
			if budget.used != 0 {
				t.Errorf("%d bytes reserved after refusal and Close", budget.used)
			}
			budget.limit = math.MaxInt64
			if _, err := decodeAll(d, b); err != nil {
				t.Errorf("after a refusal: %v", err)
			}
			d.Close()
		})
	}
}

// A header of two bytes takes 48 in memory; 0.8 MB of them must not take 19 MB unasked.
func TestHeadersAreBounded(t *testing.T) {
	headers := slices.Repeat([]RecordHeader{{[]byte{}, []byte{}}}, 400_000)
	payload := appendRecord(nil, testRecord{headers: headers})
	budget := &testBudget{limit: math.MaxInt64}
	d := NewDecoder(16<<20, budget)
	_, err := decodeAll(d, buildBatch(0, 0, 0, 1, payload))
	wantKind(t, err, TooLarge)
	if budget.peak != 0 {
		t.Errorf("%d bytes reserved", budget.peak)
	}
	d.Close()

	d = NewDecoder(256<<20, &testBudget{limit: 1 << 20})
	_, err = decodeAll(d, buildBatch(0, 0, 0, 1, payload))
	wantKind(t, err, OverBudget)
	d.Close()

	payload = appendRecord(nil, testRecord{headers: headers[:1000]})
	payload = appendRecord(payload, testRecord{delta: 1, headers: headers[:1500]})
	d = NewDecoder(1<<20, budget)
	records, err := decodeAll(d, buildBatch(0, 0, 1, 2, payload))
	if err != nil || len(records[0].Headers) != 1000 || len(records[1].Headers) != 1500 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	d.Close()
	if budget.used != 0 {
		t.Errorf("%d bytes reserved after Close", budget.used)
	}
}

func BenchmarkNext(b *testing.B) {
	batch := buildBatch(0, 0, 999, 1000, recordBytes(plainRecords(0, 1000)))
	d := NewDecoder(1<<20, nil)
	var rec Record
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := d.Open(batch); err != nil {
			b.Fatal(err)
		}
		for {
			ok, err := d.Next(&rec)
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
}

func FuzzDecoder(f *testing.F) {
	for id := range golden {
		f.Add(goldenBytes(f, id))
	}
	payload := recordBytes(plainRecords(0, 20))
	f.Add(buildBatch(0, 1, 19, 20, gzipped(f, payload[:30], payload[30:])))
	f.Add(buildBatch(0, 2, 19, 20, append(xerial(payload[:30], payload[30:60]), xerial(payload[60:])...)))
	f.Add(buildBatch(0, 3, 19, 20, lz4Frame(f, payload)))
	f.Add(buildBatch(0, 4, 19, 20, append(zstdStream(f, payload[:30]), zstdWhole(f, payload[30:])...)))
	for _, b := range sampleBatches(f, 4) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 12 {
			// The length is always right, so that the fuzzer gets beyond it.
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		}
		budget := &testBudget{limit: 3 << 20}
		d := NewDecoder(1<<20, budget)
		var rec Record
		err := d.Open(b)
		last := int64(-1)
		for ok := err == nil; ok; {
			if ok, err = d.Next(&rec); ok {
				if rec.Offset <= last {
					t.Fatalf("offset %d after %d", rec.Offset, last)
				}
				last = rec.Offset
			}
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Fatalf("foreign error %v", err)
		}
		if int64(cap(d.out.b)) > budget.limit {
			t.Fatalf("buffer of %d bytes", cap(d.out.b))
		}
		d.Close()
		if budget.used != 0 {
			t.Fatalf("%d bytes reserved after Close", budget.used)
		}
		_, _, _, _ = ParseControl(b)
		for b, err := range Batches(b) {
			if err == nil && int64(len(b.Bytes)) != b.Header.Size() {
				t.Fatal("batch is not whole")
			}
		}
	})
}
