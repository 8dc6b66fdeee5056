package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/layout/aiven"
	"coldtap/segment"
	"coldtap/tier"
)

func testKnown() *inventory {
	k := newInventory()
	for n := range uint64(5) {
		m := makeSegment(n+1, int32(n), int64(100*n), int64(100*n+99))
		m.Partition.Partition = int32(n / 2)
		m.TxnIndexEmpty = n%2 == 0
		m.State = 1
		e := &entry{seg: &m.Segment, from: k.origins.number([]string{"", "ts/"}[n%2], "cluster"), size: 700 + uint32(n), modTime: -5, logSize: 100, filesSize: 31}
		k.link(e)
		k.partition(m.Partition).lineage = &lineage{of: e.mark(), checkpoint: &layout.Checkpoint{Start: -1, Epochs: []segment.EpochStart{{}, {Epoch: 4, StartOffset: 400}}}}
	}
	flawed := makeSegment(99, 0, 0, 9)
	k.put(&entry{seg: &flawed.Segment, from: k.origins.number("", "")}, &Finding{Problem: Damaged})
	return k
}

// plain is what a snapshot file holds of it, by id and by partition.
func plain(k *inventory) (entries map[segment.UUID]string, lineages map[tier.PartitionID]*lineage) {
	entries, lineages = make(map[segment.UUID]string), make(map[tier.PartitionID]*lineage)
	for e := range k.entries.all {
		if !e.flawed {
			entries[e.seg.ID] = fmt.Sprintf("%+v %+v %d %d %d %d", *e.seg, k.origins.get(e.from), e.size, e.modTime, e.logSize, e.filesSize)
		}
	}
	for id, p := range k.partitions {
		if p.lineage != nil {
			lineages[id] = p.lineage
		}
	}
	return entries, lineages
}

func samePlain(a, b *inventory) bool {
	x, xl := plain(a)
	y, yl := plain(b)
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(xl, yl)
}

func encoded(t testing.TB, k *inventory) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := encode(&out, "identity", k); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshotFileComesBack(t *testing.T) {
	k := testKnown()
	raw := encoded(t, k)
	got, err := decode(bytes.NewReader(raw), int64(len(raw)), "identity")
	if err != nil {
		t.Fatal(err)
	}
	// Useless manifests are read again by the next process, which may know more.
	if !samePlain(got, k) || got.entries.get(id(99)) != nil {
		t.Errorf("%+v came back as %+v", k, got)
	}
	if again := encoded(t, got); !bytes.Equal(again, raw) {
		t.Error("the same knowledge makes other bytes")
	}
	if _, err := decode(bytes.NewReader(raw), int64(len(raw)), "other"); !errors.Is(err, errOtherArchive) {
		t.Errorf("of another archive: %v", err)
	}
}

func TestDamagedSnapshotFile(t *testing.T) {
	raw := encoded(t, testKnown())
	for i := range raw {
		if _, err := decode(bytes.NewReader(raw[:i]), int64(i), "identity"); err == nil {
			t.Fatalf("cut to %d bytes it was read", i)
		}
		bad := bytes.Clone(raw)
		bad[i] ^= 0x41
		if _, err := decode(bytes.NewReader(bad), int64(len(bad)), "identity"); err == nil {
			t.Fatalf("with another byte %d it was read", i)
		}
	}
	long := append(bytes.Clone(raw), 0)
	if _, err := decode(bytes.NewReader(long), int64(len(long)), "identity"); err == nil {
		t.Error("with a byte more it was read")
	}
}

// A snapshot file that cannot be used costs reading the manifests, and is replaced.
func TestSnapshotFileThatCannotBeUsed(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	three(b)
	dir := t.TempDir()
	o := Options{Snapshot: filepath.Join(dir, "archive.snapshot"), Identity: "here"}
	b.open(t, o).Close()
	manifests := faultstore.Suffix(aiven.SuffixManifest)
	for name, spoil := range map[string]func(){
		"damaged":      func() { os.WriteFile(o.Snapshot, []byte("rubbish"), 0o600) },
		"empty":        func() { os.WriteFile(o.Snapshot, nil, 0o600) },
		"of elsewhere": func() { o.Identity += "after" },
		"missing":      func() { os.Remove(o.Snapshot) },
	} {
		spoil()
		b.faults.Reset()
		a := b.open(t, o)
		wantServed(t, a, 1, 2, 3)
		a.Close()
		if n := b.faults.Count(faultstore.Get, manifests); n != 3 {
			t.Errorf("%s: %d manifests were read", name, n)
		}
		b.faults.Reset()
		b.open(t, o).Close()
		if n := b.faults.Count(faultstore.Get, nil); n != 0 {
			t.Errorf("%s: %d GETs with the next snapshot", name, n)
		}
	}
	// A place that cannot be written is no reason not to serve.
	b.open(t, Options{Snapshot: filepath.Join(o.Snapshot, "below-a-file")}).Close()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// A manifest that was overwritten since is read again.
func TestOverwrittenSinceTheSnapshot(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	o := Options{Snapshot: filepath.Join(t.TempDir(), "archive.snapshot")}
	b.open(t, o).Close()
	all[1].remove(b)
	all[2].Size, all[2].manifest = 333, nil
	all[2].put(b)
	a := b.open(t, o)
	wantServed(t, a, 1)
	if s, ok := view0(t, a).Find(250); !ok || s.Size != 333 {
		t.Errorf("%v holds 250", s)
	}
}

func FuzzSnapshotFile(f *testing.F) {
	raw := encoded(f, testKnown())
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte(fileMagic + "\x08identity\x00abcd"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// Mutations rarely hit the checksum, so it is put right.
		if len(raw) >= 4 {
			sum := crc32.Checksum(raw[:len(raw)-4], castagnoli)
			raw = append(bytes.Clone(raw[:len(raw)-4]), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
		}
		k, err := decode(bytes.NewReader(raw), int64(len(raw)), "identity")
		if err != nil {
			return
		}
		again := encoded(t, k)
		back, err := decode(bytes.NewReader(again), int64(len(again)), "identity")
		if err != nil {
			t.Fatal(err)
		}
		x, _ := plain(k)
		if y, _ := plain(back); !reflect.DeepEqual(x, y) {
			t.Fatalf("%v came back as %v", x, y)
		}
	})
}
