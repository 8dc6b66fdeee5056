package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// What an error says of where it is leads whoever looks at the file with another tool to the right byte; within
// compressed bytes there is no such place.
func TestErrorsSayWhere(t *testing.T) {
	batch := func(b []byte) error {
		_, err := decodeAll(NewDecoder(1<<20, nil), b)
		return err
	}
	offsets := func(raw []byte, base int64) error {
		_, err := ParseOffsetIndex(raw, base, 1<<20)
		return err
	}
	times := func(raw []byte) error { _, err := ParseTimeIndex(raw, 0); return err }
	txns := func(raw []byte) error { _, err := ParseTxnIndex(raw, 0); return err }
	epochs := func(raw string) error { _, err := ParseEpochCheckpoint([]byte(raw)); return err }
	properties := func(raw []byte) error { _, err := ParseProperties(raw); return err }

	bad := append(recordBytes(plainRecords(0, 1)), 2, 0)
	second := len(recordBytes(plainRecords(0, 1)))
	inner := innerMessages(1, 0, 1)
	twice := innerMessages(1, 5, 5)
	headers := appendRecord(nil, testRecord{headers: make([]RecordHeader, 9)})
	few := NewDecoder(8*recordHeaderSize, nil)
	for name, c := range map[string]struct {
		err  error
		want int64
	}{
		"a record":                       {batch(buildBatch(0, 0, 1, 2, bad)), int64(HeaderSize + second)},
		"a record of a compressed batch": {batch(buildBatch(0, 1, 1, 2, gzipped(t, bad))), -1},
		"too many headers":               {func() error { _, err := decodeAll(few, buildBatch(0, 0, 0, 1, headers)); return err }(), -1},
		"zstd in an old message":         {batch(buildMessage(1, 7, 4, 0, nil, []byte("x"))), 17},
		"an inner message cut":           {batch(buildMessage(1, 7, 1, 0, nil, gzipped(t, inner[:len(inner)-1]))), -1},
		"inner offsets out of order":     {batch(buildMessage(1, 7, 1, 0, nil, gzipped(t, twice))), -1},
		"no inner message":               {batch(buildMessage(1, 7, 1, 0, nil, gzipped(t, nil))), -1},
		"inner offset above the outer":   {batch(buildMessage(0, 7, 1, 0, nil, gzipped(t, innerMessages(0, 8)))), -1},
		"the second offset entry":        {offsets(unhex(t, "0000000100000010"+"0000000100000020"), 0), 8},
		"a ragged offset index":          {offsets(make([]byte, 19), 0), 16},
		"a base offset":                  {offsets(nil, -1), -1},
		"the second time entry":          {times(unhex(t, "000000000000000500000001"+"000000000000000400000002")), 12},
		"part of a transaction":          {txns(append(AppendTxnIndex(nil, AbortedTxn{1, 5, 9, 10}), 0, 0, 0)), 34},
		"the second checkpoint entry":    {epochs("0\n2\n0 0\nx 1\n"), 8},
		"large properties":               {properties(make([]byte, maxPropertiesSize+1)), -1},
	} {
		var e *Error
		if !errors.As(c.err, &e) || e.Position != c.want {
			t.Errorf("%s: %v at byte %d, want %d", name, c.err, e.Position, c.want)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Kind: Corrupt, Op: "batch header", Position: 0, Detail: "offset -1"}, "batch header: corrupt at byte 0: offset -1"},
		{&Error{Kind: Truncated, Op: "zstd", Position: -1, Err: io.EOF}, "zstd: truncated: EOF"},
		{func() error {
			_, err := decodeAll(NewDecoder(1<<20, nil), append(plainBatch(5, 1), 1, 2, 3))
			return err
		}(), ": 3 bytes after the batch at offset 5"},
	} {
		if got := c.err.Error(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The greatest and the smallest that a format allows is accepted, one more is not.
func TestEdgesOfTheFormats(t *testing.T) {
	if records := mustDecode(t, buildMessage(0, 7, 0, 0, nil, nil)); len(records) != 1 || records[0].Key != nil || records[0].Value != nil {
		t.Errorf("the smallest message: %+v", records)
	}
	if records := mustDecode(t, buildMessage(0, 7, 1, 0, nil, gzipped(t, buildMessage(0, 7, 0, 0, nil, nil)))); len(records) != 1 {
		t.Errorf("the smallest message, compressed: %+v", records)
	}
	if h, err := ParseHeader(buildBatch(math.MaxInt64-10, 0, 9, 0, nil), 1<<20); err != nil || h.LastOffset() != math.MaxInt64-1 {
		t.Errorf("the greatest offset: %+v, %v", h, err)
	}
	if _, err := ParseHeader(buildBatch(math.MaxInt64-10, 0, 10, 0, nil), 1<<20); err == nil {
		t.Error("an offset without a next one: accepted")
	}
	huge := plainBatch(0, 1)
	binary.BigEndian.PutUint32(huge[8:], math.MaxInt32)
	for _, err := range Batches(huge) {
		wantKind(t, err, Truncated)
	}

	const mostBase = math.MaxInt64 - math.MaxInt32 - 1
	for _, raw := range []string{"0000000000000005", "0000000500000000", "0000000500000001"} {
		if _, err := ParseOffsetIndex(unhex(t, raw), 7, 1<<20); err != nil {
			t.Errorf("offset index %s: %v", raw, err)
		}
	}
	if _, err := ParseOffsetIndex(nil, mostBase, 1<<20); err != nil {
		t.Error(err)
	}
	if _, err := ParseOffsetIndex(nil, mostBase+1, 1<<20); err == nil {
		t.Error("a base offset whose index can overflow: accepted")
	}
	if _, err := ParseTimeIndex(unhex(t, "000000000000000000000001"), 7); err != nil {
		t.Errorf("a timestamp of 0: %v", err)
	}
	for _, txn := range []AbortedTxn{{0, 0, 7, 8}, {1, 7, 7, 8}, {1, 5, 8, -1}} {
		if _, err := ParseTxnIndex(AppendTxnIndex(nil, txn), 7); err != nil {
			t.Errorf("%+v: %v", txn, err)
		}
	}

	_, err := ParseEpochCheckpoint([]byte("0\n1048576\n"))
	wantKind(t, err, Truncated)
	_, err = ParseEpochCheckpoint([]byte("0\n1048577\n"))
	wantKind(t, err, TooLarge)
	if p, err := ParseProperties(append([]byte("a="), bytes.Repeat([]byte("b"), maxPropertiesSize-2)...)); err != nil || len(p["a"]) != maxPropertiesSize-2 {
		t.Errorf("%d properties, %v", len(p), err)
	}
	if p, err := ParseProperties([]byte(`k=\u00e9`)); err != nil || p["k"] != "é" {
		t.Errorf("an escape at the end: %q, %v", p, err)
	}
	_, err = ParseProperties([]byte(`k=xyz\u12`))
	wantKind(t, err, Corrupt)
	if topic, partition, ok := ParsePartitionDir("azAZ09-3"); !ok || topic != "azAZ09" || partition != 3 {
		t.Errorf("%q, %d, %t", topic, partition, ok)
	}
	if offset, suffix, ok := ParseFileName("00000000000000000100.x"); !ok || offset != 100 || suffix != ".x" {
		t.Errorf("%d, %q, %t", offset, suffix, ok)
	}
}

func TestHeaderFlagsAndNames(t *testing.T) {
	for magic := range int8(3) {
		for _, horizon := range []bool{false, true} {
			h := Header{Magic: magic}
			if horizon {
				h.Attributes = attributeDeleteHorizon
			}
			if got := h.HasDeleteHorizon(); got != (horizon && magic == 2) {
				t.Errorf("magic %d, attributes %x: %t", magic, h.Attributes, got)
			}
		}
	}
	if CreateTime.String() != "CreateTime" || LogAppendTime.String() != "LogAppendTime" {
		t.Errorf("%s, %s", CreateTime, LogAppendTime)
	}
}

func TestFilesSize(t *testing.T) {
	f := Files{OffsetIndex: make([]byte, 1), TimeIndex: make([]byte, 10), TxnIndex: make([]byte, 100), Snapshot: make([]byte, 1000),
		LeaderEpochs: make([]byte, 10_000), Aborted: make([]AbortedTxn, 3)}
	if got := f.Size(); got != 11_111+3*32 {
		t.Errorf("%d bytes", got)
	}
}

func TestRewind(t *testing.T) {
	d := NewDecoder(1<<20, nil)
	defer d.Close()
	if err := d.Open(buildBatch(0, 1, 2, 3, gzipped(t, recordBytes(plainRecords(0, 3))))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var rec Record
		for n := range int64(3) {
			if ok, err := d.Next(&rec); !ok || err != nil || rec.Offset != n {
				t.Fatalf("record %d: offset %d, %t, %v", n, rec.Offset, ok, err)
			}
		}
		if ok, err := d.Next(&rec); ok || err != nil {
			t.Fatalf("behind the last record: %t, %v", ok, err)
		}
		d.Rewind()
	}
}

// More records than the bytes can hold are noticed when the batch is opened, before a reader counts on them.
func TestCountIsHeldAgainstTheBytes(t *testing.T) {
	wantKind(t, NewDecoder(1<<20, nil).Open(buildBatch(0, 0, 99, 100, recordBytes(plainRecords(0, 10)))), Corrupt)
}

// Memory for headers is reserved for what the record can hold, reused, and bounded as a whole.
func TestHeadersMemory(t *testing.T) {
	eight := make([]RecordHeader, 8)
	for i := range eight {
		eight[i].Key = []byte{}
	}
	records := func(counts ...int) []byte {
		var payload []byte
		for i, n := range counts {
			payload = appendRecord(payload, testRecord{delta: int32(i), headers: slices.Repeat(eight, 2)[:n]})
		}
		return buildBatch(0, 0, int32(len(counts)-1), int32(len(counts)), payload)
	}
	budget := &testBudget{limit: math.MaxInt64}
	d := NewDecoder(8*recordHeaderSize, budget)
	if _, err := decodeAll(d, records(8, 8)); err != nil || budget.peak != 8*recordHeaderSize {
		t.Errorf("as many headers as the limit allows, twice: %d bytes at the peak, %v", budget.peak, err)
	}
	if n := testing.AllocsPerRun(10, func() {
		d.Rewind()
		for rec := (Record{}); ; {
			if ok, err := d.Next(&rec); !ok || err != nil {
				return
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations for headers that fit", n)
	}
	d.Close()

	d = NewDecoder(10*recordHeaderSize, budget)
	budget.peak = 0
	if _, err := decodeAll(d, records(8, 9)); err != nil || budget.peak > 10*recordHeaderSize {
		t.Errorf("%d bytes at the peak, limit %d, %v", budget.peak, 10*recordHeaderSize, err)
	}
	d.Close()
	if budget.used != 0 {
		t.Errorf("%d bytes reserved after Close", budget.used)
	}

	// 30 headers are announced where 20 bytes are left.
	lie := append([]byte{0, 0, 0, 1, 1}, 60)
	lie = append(lie, make([]byte, 20)...)
	payload := append(appendVarint(nil, int64(len(lie))), lie...)
	d = NewDecoder(1<<20, &testBudget{})
	_, err := decodeAll(d, buildBatch(0, 0, 0, 1, payload))
	wantKind(t, err, Corrupt)
}

// A log that has grown since its size was taken is read up to that size; one that was cut is an error.
func TestReadEndsWithTheLog(t *testing.T) {
	log := slices.Concat(plainBatch(0, 10), plainBatch(10, 10))
	size := int64(len(log)) - 7
	if got, err := io.ReadAll(NewLogReader(bytes.NewReader(log), size, 1<<20)); err != nil || !bytes.Equal(got, log[:size]) {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	long := make([]byte, 3*logBuffer)
	if got, err := io.ReadAll(NewLogReader(bytes.NewReader(long), logBuffer+100, 1<<20)); err != nil || len(got) != logBuffer+100 {
		t.Errorf("%d bytes of %d, %v", len(got), logBuffer+100, err)
	}
	r := NewLogReader(bytes.NewReader(log[:50]), size, 1<<20)
	if _, err := r.Peek(40); err != nil {
		t.Fatal(err)
	}
	_, err := r.Peek(60)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "at byte 50 of ") {
		t.Errorf("%v", err)
	}
	if _, err := NewLogReader(bytes.NewReader(nil), size, 1<<20).Read(make([]byte, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}
