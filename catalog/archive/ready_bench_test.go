package archive

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"coldtap/layout"
	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// hugeBucket is the listing of a bucket, made as it is asked for; it holds no bytes.
type hugeBucket struct {
	rangeio.Backend
	made  []*made
	stems []string // of the keys, in their order
}

// newHugeBucket spreads so many segments over 100 partitions of one topic.
func newHugeBucket(segments int) *hugeBucket {
	h := &hugeBucket{}
	for i := range segments {
		m := makeSegment(uint64(i)*0x9e3779b97f4a7c15, 0, int64(i/100*1000), int64(i/100*1000+999)) // ids in no order, as Kafka's
		m.Partition.Partition = int32(i % 100)
		m.EventTime = 1_700_000_000_000 + int64(i)
		m.State = tier.CopyFinished
		h.made = append(h.made, m)
		h.stems = append(h.stems, m.stem())
	}
	slices.Sort(h.stems)
	return h
}

func (*hugeBucket) Open(context.Context, string, int64, int64, string) (io.ReadCloser, rangeio.Info, error) {
	return nil, rangeio.Info{}, errors.New("nothing has to be read")
}

func (h *hugeBucket) List(_ context.Context, _ string, fn func(rangeio.Object) error) error {
	for _, stem := range h.stems {
		for _, o := range []rangeio.Object{{Key: aiven.SuffixIndexes, Size: 31}, {Key: aiven.SuffixLog, Size: 100}, {Key: aiven.SuffixManifest, Size: 700}} {
			o.Key, o.ModTime = stem+o.Key, time.Unix(1, 0)
			if err := fn(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (*hugeBucket) String() string { return "huge" }
func (*hugeBucket) Close() error   { return nil }

// known is what a snapshot file has of the bucket.
func (h *hugeBucket) known() *inventory {
	k := newInventory()
	for _, m := range h.made {
		e := &entry{seg: &m.Segment, from: k.origins.number("", ""), size: 700, modTime: time.Unix(1, 0).UnixNano(), logSize: uint32(m.Size), filesSize: 31}
		k.link(e)
		k.partition(m.Partition).lineage = &lineage{of: e.mark(), checkpoint: &layout.Checkpoint{Epochs: []segment.EpochStart{{}}}}
	}
	return k
}

// cpu is the processor time of the process, in ns: other processes of the machine count less in it than in the clock.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkReadyFromSnapshot is a start with 300,000 segments that the snapshot file knows, the listing included. The
// bars are 5 s and 300 bytes a segment.
func BenchmarkReadyFromSnapshot(b *testing.B) {
	const segments = 300_000
	huge := newHugeBucket(segments)
	path := filepath.Join(b.TempDir(), "archive.snapshot")
	if err := writeFile(path, "", huge.known()); err != nil {
		b.Fatal(err)
	}
	store := rangeio.NewClient(huge, rangeio.Config{})
	l, err := aiven.New(store, aiven.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := cpu()
		a, err := Open(b.Context(), Options{Store: store, Layout: l, Snapshot: path})
		if err != nil {
			b.Fatal(err)
		}
		if err := a.awaitListing(b.Context()); err != nil || a.Snapshot().Segments() != segments || a.Report().Read != 0 {
			b.Fatal(err, a.Report())
		}
		b.ReportMetric(float64(cpu()-began)/1e9, "cpu-s")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/segments, "bytes/segment")
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
