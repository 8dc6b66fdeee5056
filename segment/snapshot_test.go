package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
)

func TestSnapshotGolden(t *testing.T) {
	want := []ProducerState{{
		ProducerID: 4000, Epoch: 1, LastSequence: 9, LastOffset: 102, OffsetDelta: 2, Timestamp: 1700000000005,
		CoordinatorEpoch: 9, TxnFirstOffset: 100,
	}}
	got, err := ParseSnapshot(goldenBytes(t, "A16"))
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	if raw := AppendSnapshot([]byte("x"), want); !bytes.Equal(raw[1:], goldenBytes(t, "A16")) {
		t.Errorf("wrote %x", raw)
	}
	empty := unhex(t, "000148674bc700000000")
	if got, err := ParseSnapshot(empty); err != nil || len(got) != 0 {
		t.Errorf("empty: %+v, %v", got, err)
	}
	if raw := AppendSnapshot(nil, nil); !bytes.Equal(raw, empty) {
		t.Errorf("wrote %x", raw)
	}
}

func TestSnapshotOfSample(t *testing.T) {
	sampleIndexes(t, ".snapshot", func(name string, _ int64, raw, _ []byte) {
		states, err := ParseSnapshot(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(AppendSnapshot(nil, states), raw) {
			t.Errorf("%s: written differently", name)
		}
	})
}

func TestDamagedSnapshot(t *testing.T) {
	raw := goldenBytes(t, "A16")
	count := func(n uint32, size int) []byte {
		b := bytes.Clone(raw[:size])
		binary.BigEndian.PutUint32(b[6:], n)
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
		return b
	}
	version := bytes.Clone(raw)
	version[1] = 2
	for _, c := range []struct {
		name string
		raw  []byte
		want Kind
	}{
		{"nothing", nil, Truncated},
		{"header cut", raw[:9], Truncated},
		{"version 2", version, Unsupported},
		{"cut", raw[:len(raw)-1], Corrupt},
		{"byte more", append(bytes.Clone(raw), 0), Corrupt},
		{"count of 2^31-1", count(1<<31-1, len(raw)), Corrupt},
		{"count negative", count(1<<32-1, len(raw)), Corrupt},
		{"count one short", count(0, len(raw)), Corrupt},
	} {
		_, err := ParseSnapshot(c.raw)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		wantKind(t, err, c.want)
	}
	for i := 2; i < len(raw); i++ {
		raw[i] ^= 1
		if _, err := ParseSnapshot(raw); err == nil {
			t.Fatalf("bit flipped in byte %d: accepted", i)
		}
		raw[i] ^= 1
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(goldenBytes(f, "A16"))
	sampleIndexes(f, ".snapshot", func(_ string, _ int64, raw, _ []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= snapshotHeaderSize {
			binary.BigEndian.PutUint32(raw[2:], crc32.Checksum(raw[6:], castagnoli))
		}
		if states, err := ParseSnapshot(raw); err == nil && !bytes.Equal(AppendSnapshot(nil, states), raw) {
			t.Fatalf("%+v", states)
		}
	})
}
