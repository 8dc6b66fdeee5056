package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"
)

func innerMessages(magic int8, offsets ...int64) []byte {
	var b []byte
	for _, o := range offsets {
		b = append(b, buildMessage(magic, o, 0, 1000+o, []byte("k"), fmt.Appendf(nil, "v%d", o))...)
	}
	return b
}

func TestG3OffsetsInsideOldWrappers(t *testing.T) {
	for _, c := range []struct {
		name  string
		magic int8
		outer int64
		inner []int64
		want  []int64
	}{
		{"relative", 1, 19, []int64{0, 1, 2, 9}, []int64{10, 11, 12, 19}},
		{"relative, compacted", 1, 19, []int64{0, 3, 9}, []int64{10, 13, 19}},
		{"relative, one", 1, 19, []int64{0}, []int64{19}},
		{"outer left at 0 by an old client", 1, 0, []int64{0, 1, 2}, []int64{0, 1, 2}},
		{"absolute", 0, 29, []int64{20, 21, 29}, []int64{20, 21, 29}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := buildMessage(c.magic, c.outer, 1, 5000, nil, gzipped(t, innerMessages(c.magic, c.inner...)))
			records := mustDecode(t, b)
			if got := offsets(records); !slices.Equal(got, c.want) {
				t.Fatalf("offsets %d, want %d", got, c.want)
			}
			for i, r := range records {
				timestamp := int64(-1)
				if c.magic == 1 {
					timestamp = 1000 + c.inner[i]
				}
				if r.Timestamp != timestamp || string(r.Value) != fmt.Sprintf("v%d", c.inner[i]) || r.LeaderEpoch != -1 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestC10MagicZeroHasNoTimestamps(t *testing.T) {
	b := goldenBytes(t, "A6")
	h, err := ParseHeader(b, 1000)
	if err != nil || h.MaxTimestamp != -1 || h.BaseTimestamp != -1 {
		t.Fatalf("%+v, %v", h, err)
	}
	if r := mustDecode(t, b)[0]; r.Timestamp != -1 || r.TimestampType != CreateTime {
		t.Fatalf("%+v", r)
	}
	// Bit 3 of magic 0 has no meaning.
	if r := mustDecode(t, buildMessage(0, 3, 8, 0, nil, []byte("v")))[0]; r.Timestamp != -1 || r.TimestampType != CreateTime {
		t.Fatalf("%+v", r)
	}
}

// LogAppendTime of the outer message overrides what the inner ones say.
func TestLegacyLogAppendTime(t *testing.T) {
	b := buildMessage(1, 11, 2|8, 7777, nil, snappy.Encode(nil, innerMessages(1, 0, 1)))
	for _, r := range mustDecode(t, b) {
		if r.Timestamp != 7777 || r.TimestampType != LogAppendTime {
			t.Errorf("%+v", r)
		}
	}
	if r := mustDecode(t, buildMessage(1, 11, 8, 7777, nil, nil))[0]; r.Timestamp != 7777 || r.TimestampType != LogAppendTime || r.Value != nil {
		t.Errorf("%+v", r)
	}
}

// Brokers once let inner messages of magic 0 into a wrapper of magic 1.
func TestLegacyMixedInner(t *testing.T) {
	inner := append(buildMessage(0, 0, 0, 0, nil, []byte("a")), buildMessage(1, 1, 0, 42, nil, []byte("b"))...)
	records := mustDecode(t, buildMessage(1, 5, 1, 42, nil, gzipped(t, inner)))
	if got := offsets(records); !slices.Equal(got, []int64{4, 5}) || records[0].Timestamp != -1 || records[1].Timestamp != 42 {
		t.Fatalf("%+v", records)
	}
}

func TestMalformedMessages(t *testing.T) {
	patch := func(b []byte, at int, v uint32) []byte {
		b = slices.Clone(b)
		binary.BigEndian.PutUint32(b[at:], v)
		binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		return b
	}
	wrap := func(magic int8, outer int64, inner []byte) []byte {
		return buildMessage(magic, outer, 1, 0, nil, gzipped(t, inner))
	}
	plain := buildMessage(1, 5, 0, 0, []byte("key"), []byte("value"))
	two := innerMessages(1, 0, 1)
	badSum := slices.Clone(two)
	badSum[len(badSum)-1] ^= 1
	for name, b := range map[string][]byte{
		"key beyond the message":      patch(plain, 26, 1000),
		"value beyond the message":    patch(plain, 33, 6),
		"bytes after the value":       patch(plain, 33, 4),
		"compressed null":             buildMessage(1, 5, 1, 0, nil, nil),
		"nothing inside":              wrap(1, 5, nil),
		"inner cut":                   wrap(1, 5, two[:len(two)-1]),
		"inner length negative":       wrap(1, 5, patch(two[:len(two)/2], 8, 0xffffffff)),
		"inner length huge":           wrap(1, 5, patch(two[:len(two)/2], 8, 0x7fffffff)),
		"inner length below magic 0":  wrap(1, 5, patch(two[:len(two)/2], 8, 13)),
		"inner checksum":              wrap(1, 5, badSum),
		"inner magic 2":               wrap(1, 5, plainBatch(0, 1)),
		"compressed twice":            wrap(1, 5, wrap(1, 0, two)),
		"same inner offset twice":     wrap(1, 5, innerMessages(1, 0, 0)),
		"inner offsets descend":       wrap(1, 5, innerMessages(1, 1, 0)),
		"inner offset negative":       wrap(1, 5, innerMessages(1, -1)),
		"inner above outer, relative": wrap(1, 5, innerMessages(1, 0, 6)),
		"inner above outer, absolute": wrap(0, 5, innerMessages(0, 4, 6)),
		"inner above outer 0":         wrap(0, 0, innerMessages(0, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeAll(NewDecoder(1<<20, nil), b)
			wantKind(t, err, Corrupt)
		})
	}
}
