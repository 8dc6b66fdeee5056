package inspect

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"coldtap/internal/testing/testkit"
	"coldtap/segment"
)

const txnLog = "txn-1/00000000000000000000.log"

func show(t *testing.T, raw []byte, options LogOptions) ([]map[string]any, error) {
	t.Helper()
	return lines(t, func(o *Output) error {
		return Log(t.Context(), o, "test.log", bytes.NewReader(raw), int64(len(raw)), options)
	})
}

// What a real consumer read of the partition is what --records shows, markers aside.
func TestRecordsAreThoseOfARealConsumer(t *testing.T) {
	for _, partition := range []string{"txn-1", "codecs-0", "gaps-0"} {
		raw := sampleFile(t, partition+"/00000000000000000000.log")
		values, err := show(t, raw, LogOptions{Records: true})
		if err != nil {
			t.Fatal(err)
		}
		var records []map[string]any
		control := false
		for _, v := range values {
			if v["type"] == "batch" {
				control = v["control"] == true
				if v["crc"] != "ok" {
					t.Errorf("%v", v)
				}
			} else if !control {
				records = append(records, v)
			}
		}
		want := testkit.Expected(t, partition, "read_uncommitted")
		if len(records) == 0 || len(records) > len(want) {
			t.Fatalf("%s: %d records, a consumer read %d of the whole partition", partition, len(records), len(want))
		}
		for i, r := range records {
			w := want[i]
			if r["offset"] != float64(w.Offset) || r["timestamp"] != float64(w.Timestamp) || !same(r["key"], w.Key) || !same(r["value"], w.Value) {
				t.Fatalf("%s: record %d is %v, want %+v", partition, i, r, w)
			}
		}
	}
}

func same(shown any, want []byte) bool {
	if want == nil {
		return shown == nil
	}
	return shown == base64.StdEncoding.EncodeToString(want)
}

func TestBatchesAsLines(t *testing.T) {
	raw := sampleFile(t, txnLog)
	values, err := show(t, raw, LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for b, err := range segment.Batches(raw) {
		if err != nil {
			t.Fatal(err)
		}
		v := values[n]
		if v["position"] != float64(b.Position) || v["base_offset"] != float64(b.Header.BaseOffset) || v["producer_id"] != float64(b.Header.ProducerID) {
			t.Errorf("batch %d: %v", n, v)
		}
		n++
	}
	if n != len(values) || values[1]["marker"] != "commit" {
		t.Errorf("%d batches, %d shown; the second %v", n, len(values), values[1])
	}
	text, err := table(t, func(o *Output) error {
		return Log(t.Context(), o, "test.log", bytes.NewReader(raw), int64(len(raw)), LogOptions{Records: true})
	})
	if err != nil || !strings.HasPrefix(text, "POSITION") || !strings.Contains(text, `"Cc-3153"`) || !strings.Contains(text, "commit") {
		t.Errorf("%v\n%.500s", err, text)
	}
}

func TestDamagedLogs(t *testing.T) {
	good := sampleFile(t, txnLog)
	first := int(binary.BigEndian.Uint32(good[8:])) + 12
	batches, _ := show(t, good, LogOptions{})
	for name, c := range map[string]struct {
		change func([]byte) []byte
		says   string
		shown  int // batches; -1 = all
	}{
		"a wrong CRC":       {func(b []byte) []byte { b[first-1] ^= 1; return b }, "1 batches do not match their CRC", len(batches)},
		"cut in a header":   {func(b []byte) []byte { return b[:first+20] }, "truncated at byte 3155", 1},
		"cut in a batch":    {func(b []byte) []byte { return b[:first+70] }, "truncated at byte 3155", 1},
		"zeros at the end":  {func(b []byte) []byte { return append(b[:first:first], make([]byte, 5000)...) }, "corrupt at byte 3155", 1},
		"nonsense":          {func(b []byte) []byte { return []byte(strings.Repeat("nonsense", 20)) }, "at byte 0", 0},
		"a length too long": {func(b []byte) []byte { b[first+8] = 0x7f; return b }, "truncated at byte 3155", 1},
	} {
		values, err := show(t, c.change(bytes.Clone(good)), LogOptions{Records: false})
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Damaged || !strings.Contains(e.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if len(values) != c.shown {
			t.Errorf("%s: %d batches shown, want %d", name, len(values), c.shown)
		}
	}
	// A file that shrinks while it is read is no damage of the format.
	_, err := lines(t, func(o *Output) error {
		return Log(t.Context(), o, "test.log", bytes.NewReader(good[:first]), int64(len(good)), LogOptions{})
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a shrinking file: %v", err)
	}
}

// tiled is a log of n copies of a real batch, each at the next offset: the offset is outside the CRC.
type tiled struct {
	batch []byte
	left  int
	next  int64
	span  int64
	rest  []byte
}

func newTiled(t testing.TB, n int) (*tiled, int64) {
	log := sampleFile(t, "plain-0/00000000000000000000.log")
	for b, err := range segment.Batches(log) {
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Bytes) > 2000 {
			x := &tiled{batch: bytes.Clone(b.Bytes), left: n, span: int64(b.Header.LastOffsetDelta) + 1}
			return x, int64(n) * int64(len(x.batch))
		}
	}
	t.Fatal("no batch of the sample is large enough")
	return nil, 0
}

func (x *tiled) Read(p []byte) (int, error) {
	if len(x.rest) == 0 {
		if x.left == 0 {
			return 0, io.EOF
		}
		x.left--
		binary.BigEndian.PutUint64(x.batch, uint64(x.next))
		x.next += x.span
		x.rest = x.batch
	}
	n := copy(p, x.rest)
	x.rest = x.rest[n:]
	return n, nil
}

func FuzzLog(f *testing.F) {
	// Small ones: the engine minimizes what it finds byte by byte.
	f.Add(sampleFile(f, txnLog)[3155:3233])
	f.Add(sampleFile(f, txnLog)[3155:3953])
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			o := NewOutput(&out, asJSON)
			Log(t.Context(), o, "fuzz.log", bytes.NewReader(raw), int64(len(raw)), LogOptions{Records: true, DecodeLimit: 1 << 20})
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			if bytes.IndexByte(out.Bytes(), 0x1b) >= 0 {
				t.Fatal("an escape reaches the terminal")
			}
		}
	})
}
