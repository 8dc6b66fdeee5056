package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/internal/readcost"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
	"coldtap/internal/testing/replaycluster"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

var _ layout.Reader = (*Layout)(nil)

// bed is a layout over a store in memory.
type bed struct {
	*Layout
	mem   *simstore.Memory
	store *faultstore.Store
}

func newBed(prefix string) *bed {
	mem := simstore.NewMemory()
	store := faultstore.New(mem)
	return &bed{New(rangeio.NewClient(store, rangeio.Config{Attempts: 1}), prefix), mem, store}
}

var suffixes = []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".leader_epoch_checkpoint"}

// put stores a segment's objects: each holds its suffix, the log as many bytes as the segment has.
func (b *bed) put(seg *tier.Segment, stem string, without ...string) {
	for _, suffix := range suffixes {
		if !strings.Contains(strings.Join(without, " ")+" ", suffix+" ") {
			b.mem.Set(stem+suffix, content(seg, suffix))
		}
	}
}

func content(seg *tier.Segment, suffix string) []byte {
	if suffix != ".log" {
		return []byte(suffix)
	}
	log := make([]byte, seg.Size)
	for i := range log {
		log[i] = byte(i / 7)
	}
	return log
}

// example is the segment of which Kafka's own documentation of the layout gives the name.
func example(tb testing.TB) (seg *tier.Segment, stem string) {
	tb.Helper()
	topicID, err := segment.ParseUUID("LWgrMmVrT0a__7a4SasuPA")
	if err != nil {
		tb.Fatal(err)
	}
	id, err := segment.ParseUUID("bCqX9U--S-6U8XUM9II25Q")
	if err != nil {
		tb.Fatal(err)
	}
	return &tier.Segment{
		ID: id, Partition: tier.PartitionID{Topic: topicID}, Topic: "topic", BaseOffset: 11, EndOffset: 20, Size: 5000,
		Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 11}}, State: tier.CopyFinished,
	}, "topic-0-LWgrMmVrT0a__7a4SasuPA/00000000000000000011-bCqX9U--S-6U8XUM9II25Q"
}

func kindOf(err error) rangeio.Kind {
	if e, ok := errors.AsType[*rangeio.Error](err); ok {
		return e.Kind
	}
	return 0
}

// TestRealSegments reads every object of a real cluster's readable segments.
func TestRealSegments(t *testing.T) {
	f := clusterfixture.Load(t)
	b := newBed("kafka-tiered-storage/")
	for key, object := range f.Objects {
		b.mem.Set("kafka-tiered-storage/"+key, object)
	}
	m := tier.New()
	replaycluster.Apply(t, f, m)
	read, withTxns := 0, 0
	for p := range m.Snapshot().Partitions() {
		for _, seg := range p.Segments(false) {
			stem := fmt.Sprintf("%s-%d-%s/%020d-%s", seg.Topic, seg.Partition.Partition, seg.Partition.Topic, seg.BaseOffset, seg.ID)
			log := make([]byte, seg.Size)
			if _, err := b.ReadLog(t.Context(), seg, log, 0); err != nil || !bytes.Equal(log, f.Objects[stem+".log"]) {
				t.Errorf("%s.log: %v", stem, err)
			}
			files, cost, err := b.ReadFiles(t.Context(), seg)
			if err != nil {
				t.Errorf("%s: %v", stem, err)
				continue
			}
			read++
			want := 4
			if !seg.TxnIndexEmpty {
				want++
				withTxns++
			}
			if cost.Requests != want || cost.Bytes != files.Size() {
				t.Errorf("%s: %+v, want %d requests of %d bytes", stem, cost, want, files.Size())
			}
			for suffix, got := range map[string][]byte{".index": files.OffsetIndex, ".timeindex": files.TimeIndex,
				".txnindex": files.TxnIndex, ".snapshot": files.Snapshot, ".leader_epoch_checkpoint": files.LeaderEpochs} {
				want, ok := f.Objects[stem+suffix]
				if !bytes.Equal(got, want) || (got != nil) != ok {
					t.Errorf("%s%s differs", stem, suffix)
				}
			}
			if files.Decided || files.Aborted != nil || files.TxnDamaged || files.IndexDamaged != nil {
				t.Errorf("%s: %+v", stem, files)
			}
		}
	}
	if read < 130 || withTxns == 0 {
		t.Errorf("%d segments, %d with a transaction index", read, withTxns)
	}
}

func TestReadLogGivesAnyRange(t *testing.T) {
	seg, stem := example(t)
	b := newBed("")
	b.put(seg, stem)
	want := content(seg, ".log")
	for _, r := range [][2]int64{{0, 5000}, {0, 1}, {4999, 5000}, {100, 4200}, {0, 0}, {5000, 5000}} {
		b.store.Reset()
		got := make([]byte, r[1]-r[0])
		cost, err := b.ReadLog(t.Context(), seg, got, r[0])
		if err != nil || !bytes.Equal(got, want[r[0]:r[1]]) {
			t.Errorf("%v: %v", r, err)
		}
		requests := 1
		if len(got) == 0 {
			requests = 0
		}
		if cost != (readcost.Cost{Requests: requests, Bytes: int64(len(got))}) || len(b.store.Calls()) != requests {
			t.Errorf("%v costs %+v", r, cost)
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {0, 5001}, {5000, 1}, {1 << 62, 1 << 10}} {
		_, err := b.ReadLog(t.Context(), seg, make([]byte, r[1]), r[0])
		if _, ok := errors.AsType[*layout.Error](err); !ok {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// TestReadLogWantsTheWholeObject: a log of another length is not the segment's, whatever part of it is asked for.
func TestReadLogWantsTheWholeObject(t *testing.T) {
	seg, stem := example(t)
	for _, size := range []int{0, 4999, 5001} {
		b := newBed("")
		b.mem.Set(stem+".log", make([]byte, size))
		if _, err := b.ReadLog(t.Context(), seg, make([]byte, 10), 0); kindOf(err) != rangeio.BadAnswer && kindOf(err) != rangeio.BadRange {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	b := newBed("")
	if _, err := b.ReadLog(t.Context(), seg, make([]byte, 10), 0); kindOf(err) != rangeio.NotFound {
		t.Errorf("no object: %v", err)
	}
}

// TestReadLogStaysWithOneVersion: an object that was overwritten says so once, and is then read anew.
func TestReadLogStaysWithOneVersion(t *testing.T) {
	seg, stem := example(t)
	b := newBed("")
	b.put(seg, stem)
	read := func(off int64) error {
		_, err := b.ReadLog(t.Context(), seg, make([]byte, 100), off)
		return err
	}
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	b.mem.Set(stem+".log", make([]byte, seg.Size))
	if err := read(100); kindOf(err) != rangeio.Changed {
		t.Errorf("after an overwrite: %v", err)
	}
	if err := read(100); err != nil {
		t.Errorf("the new version: %v", err)
	}
	if err := b.mem.Delete(t.Context(), stem+".log"); err != nil {
		t.Fatal(err)
	}
	if err := read(0); kindOf(err) != rangeio.NotFound {
		t.Errorf("after a delete: %v", err)
	}
	b.put(seg, stem)
	if err := read(0); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

// TestHostileNamesReachNoStore: topic names come from a metadata topic.
func TestHostileNamesReachNoStore(t *testing.T) {
	for name, change := range map[string]func(*tier.Segment){
		"no topic":           func(s *tier.Segment) { s.Topic = "" },
		"parent":             func(s *tier.Segment) { s.Topic = ".." },
		"folder":             func(s *tier.Segment) { s.Topic = "a/b" },
		"out":                func(s *tier.Segment) { s.Topic = "../../etc/a" },
		"control character":  func(s *tier.Segment) { s.Topic = "a\x00" },
		"long":               func(s *tier.Segment) { s.Topic = strings.Repeat("a", 250) },
		"negative partition": func(s *tier.Segment) { s.Partition.Partition = -1 },
		"no topic id":        func(s *tier.Segment) { s.Partition.Topic = segment.UUID{} },
		"no segment id":      func(s *tier.Segment) { s.ID = segment.UUID{} },
		"negative offset":    func(s *tier.Segment) { s.BaseOffset = -1 },
		"negative size":      func(s *tier.Segment) { s.Size = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			seg, _ := example(t)
			change(seg)
			b := newBed("")
			_, logErr := b.ReadLog(context.Background(), seg, make([]byte, 1), 0)
			_, _, filesErr := b.ReadFiles(context.Background(), seg)
			for _, err := range []error{logErr, filesErr} {
				if _, ok := errors.AsType[*layout.Error](err); !ok {
					t.Errorf("%v", err)
				}
			}
			if calls := b.store.Calls(); len(calls) > 0 {
				t.Errorf("the store was asked for %q", calls[0].Key)
			}
		})
	}
}

// TestNamesWithDashes: nothing is parsed, so names that look like ends of names are no danger.
func TestNamesWithDashes(t *testing.T) {
	seg, _ := example(t)
	seg.Topic, seg.Partition.Partition = "odd-7.name_0-1", 12
	b := newBed("p/")
	b.put(seg, "p/odd-7.name_0-1-12-LWgrMmVrT0a__7a4SasuPA/00000000000000000011-bCqX9U--S-6U8XUM9II25Q")
	if _, err := b.ReadLog(t.Context(), seg, make([]byte, 5000), 0); err != nil {
		t.Error(err)
	}
	if _, _, err := b.ReadFiles(t.Context(), seg); err != nil {
		t.Error(err)
	}
}

func TestChunkSize(t *testing.T) {
	l := New(nil, "")
	for max, want := range map[int64]int64{1: 1, 4095: 4095, 4096: 4096, 8191: 4096, 4 << 20: 4 << 20, 5 << 20: 4 << 20} {
		if got := l.ChunkSize(nil, max); got != want {
			t.Errorf("%d of at most %d", got, max)
		}
	}
}
