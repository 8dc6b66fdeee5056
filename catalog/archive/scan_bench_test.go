package archive

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// farStore answers each GET, and each page of 1,000 keys, after so long.
type farStore struct {
	rangeio.Backend
	latency time.Duration
}

func (s *farStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	time.Sleep(s.latency)
	return s.Backend.Open(ctx, key, off, n, etag)
}

func (s *farStore) List(ctx context.Context, prefix string, fn func(rangeio.Object) error) error {
	n := 0
	return s.Backend.List(ctx, prefix, func(o rangeio.Object) error {
		if n%1000 == 0 {
			time.Sleep(s.latency)
		}
		n++
		return fn(o)
	})
}

// BenchmarkFirstListing reads 10,000 manifests of 100 partitions from a store that is 30 ms away.
func BenchmarkFirstListing(b *testing.B) {
	bucket, _ := aivenBucket(b, aiven.Options{})
	for i := range 10_000 {
		m := makeSegment(uint64(i+1), 0, int64(i/100*1000), int64(i/100*1000+999)).lineage(segment.EpochStart{})
		m.Partition = tier.PartitionID{Topic: topicA, Partition: int32(i % 100)}
		m.put(bucket)
	}
	far := rangeio.NewClient(&farStore{bucket.Memory, 30 * time.Millisecond}, rangeio.Config{})
	l, err := aiven.New(far, aiven.Options{})
	if err != nil {
		b.Fatal(err)
	}
	snapshot := b.TempDir() + "/archive.snapshot"
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("snapshot=%t", warm), func(b *testing.B) {
			list := func() {
				o := Options{Store: far, Layout: l}
				if warm {
					o.Snapshot = snapshot
				}
				a, err := Open(b.Context(), o)
				if err != nil {
					b.Fatal(err)
				}
				defer a.Close()
				if err := a.awaitListing(b.Context()); err != nil || a.Snapshot().Segments() != 10_000 {
					b.Fatal(err, a.Report())
				}
			}
			if warm {
				list()
			}
			for b.Loop() {
				list()
			}
		})
	}
}
