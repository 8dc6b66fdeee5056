package kafka

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"coldtap/catalog"
	"coldtap/internal/testing/clusterfixture"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestWalkGivesEveryRecord of real topics, in the order of partitions and offsets, with those that cannot be read.
func TestWalkGivesEveryRecord(t *testing.T) {
	for name, set := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, DefaultPartitions)
			s.dumped(t, set)
			s.raw(t, DefaultPartitions-1, []byte("garbage"), nil)
			i := 0
			err := Walk(t.Context(), s.dial(t), "", func(e Entry) error {
				if i >= len(set.Metadata) {
					want := []Kind{UnknownFrame, NullValue}[i-len(set.Metadata)]
					if e.Partition != DefaultPartitions-1 || e.Record != nil || e.Err == nil || e.Err.Kind != want {
						t.Errorf("%+v, want one of kind %v", e, want)
					}
					i++
					return nil
				}
				m := set.Metadata[i]
				want, _ := Decode(m.Value)
				if e.Partition != m.Partition || e.Offset != m.Offset || e.Size != len(m.Value) || e.Timestamp == 0 || e.Err != nil ||
					!reflect.DeepEqual(e.Record, want) {
					t.Fatalf("%+v, want %+v at offset %d of partition %d", e, want, m.Offset, m.Partition)
				}
				i++
				return nil
			})
			if err != nil || i != len(set.Metadata)+2 {
				t.Errorf("%d records, %v", i, err)
			}
		})
	}
}

// TestWalkEndsWhereTheTopicDid when it began, with the callback's error, or with the context.
func TestWalkEndsWhereTheTopicDid(t *testing.T) {
	s := newHarness(t, 1)
	for n := range byte(3) {
		s.write(t, 1, finished(n, orders3, int64(n)*100, int64(n)*100+99)...)
	}
	n := 0
	if err := Walk(t.Context(), s.dial(t), Name, func(Entry) error {
		if n++; n == 1 {
			s.write(t, 1, finished(9, orders3, 900, 999)...)
		}
		return nil
	}); err != nil || n != 6 {
		t.Errorf("%d records, %v", n, err)
	}
	enough := errors.New("enough")
	if err := Walk(t.Context(), s.dial(t), Name, func(e Entry) error {
		if e.Offset == 2 {
			return enough
		}
		return nil
	}); err != enough {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Walk(ctx, s.dial(t), Name, func(e Entry) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	wantKind(t, Walk(t.Context(), s.dial(t), "no_such_topic", func(Entry) error { return nil }), catalog.Unavailable)
	s.fail(kmsg.Fetch.Int16(), true)
	wantKind(t, Walk(t.Context(), s.dial(t), Name, func(Entry) error { return nil }), catalog.Unavailable)
}

// TestWalkThatIsCanceledOnTheWay says so, even if the last answer was good.
func TestWalkThatIsCanceledOnTheWay(t *testing.T) {
	s := newHarness(t, 1)
	s.raw(t, 0, []byte("v"), []byte("v"))
	s.serve = func(req *kmsg.FetchRequest) kmsg.Response {
		return answering(req, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.RecordBatches = 2, batchOf(t, 0, kgo.NoCompression(), []byte("v"))
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := Walk(ctx, s.dial(t), Name, func(Entry) error {
		n++
		cancel()
		return nil
	})
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestWalkFollowsALeader that moves on the way.
func TestWalkFollowsALeader(t *testing.T) {
	s := newHarness(t, 4, kfake.ClusterID("walked"))
	f := clusterfixture.Load(t)
	for i, m := range f.Metadata[:200] {
		s.raw(t, int32(i%4), m.Value)
	}
	n := 0
	if err := Walk(t.Context(), s.dial(t), Name, func(e Entry) error {
		if n++; e.Offset == 0 && e.Partition < 3 {
			next := e.Partition + 1
			return s.MoveTopicPartition(Name, next, (s.LeaderFor(Name, next)+1)%3)
		}
		return nil
	}); err != nil || n != 200 {
		t.Errorf("%d records, %v", n, err)
	}
}
