package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"coldtap/cluster"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readOnly are the keys that a follower may send.
var readOnly = map[int16]bool{
	kmsg.ApiVersions.Int16(): true, kmsg.Metadata.Int16(): true, kmsg.ListOffsets.Int16(): true, kmsg.Fetch.Int16(): true,
}

// harness is a cluster with a metadata topic.
type harness struct {
	*kfake.Cluster
	writer *kgo.Client

	mu        sync.Mutex
	asked     map[int16]int                          // requests by key, those of the writer left out
	fetched   []wanted                               // what Fetches asked for, of which only what a test looks at
	noFetch   int32                                  // a node that answers no Fetch, -1 = none
	noOffsets int32                                  // a node that answers no ListOffsets, -1 = none
	serve     func(*kmsg.FetchRequest) kmsg.Response // nil, or a nil answer = as the cluster does
	down      map[int16]bool                         // keys that are answered by a closed connection; -1 = all
}

func newHarness(t testing.TB, partitions int32, opts ...kfake.Opt) *harness {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.ClusterID(scriptedcluster.ID), kfake.SeedTopics(partitions, Name)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &harness{Cluster: c, asked: map[int16]int{}, down: map[int16]bool{}, noFetch: -1, noOffsets: -1}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[req.Key()]++
		if f, ok := req.(*kmsg.FetchRequest); ok {
			for _, p := range f.Topics[0].Partitions {
				s.fetched = append(s.fetched, wanted{p.Partition, position{offset: p.FetchOffset, epoch: p.LastFetchedEpoch}})
			}
		}
		if req.Key() == kmsg.Fetch.Int16() && c.CurrentNode() == s.noFetch {
			return nil, errors.New("mute"), true
		}
		if req.Key() == kmsg.ListOffsets.Int16() && c.CurrentNode() == s.noOffsets {
			return nil, errors.New("deaf"), true
		}
		if f, ok := req.(*kmsg.FetchRequest); ok && s.serve != nil {
			if resp := s.serve(f); resp != nil {
				return resp, nil, true
			}
		}
		if s.down[req.Key()] || s.down[-1] {
			return nil, errors.New("down"), true
		}
		return nil, nil, false
	})
	s.newWriter(t)
	return s
}

// newWriter makes a writer that knows the topic as it is now.
func (s *harness) newWriter(t testing.TB) {
	t.Helper()
	w, err := kgo.NewClient(append(s.options(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	s.writer = w
}

func (s *harness) options() []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(s.ListenAddrs()...)} }

func (s *harness) dial(t testing.TB) *cluster.Brokers {
	t.Helper()
	b, err := cluster.Dial(cluster.Config{Bootstrap: s.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// fail lets requests of a key fail, or all of them (-1).
func (s *harness) fail(key int16, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[key] = down
}

// resetCounts begins to count requests again.
func (s *harness) resetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.asked)
	s.fetched = nil
}

// raw writes values to a partition.
func (s *harness) raw(t testing.TB, partition int32, values ...[]byte) {
	t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: Name, Partition: partition, Value: v})
	}
	if err := s.writer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// write files records where brokers would.
func (s *harness) write(t testing.TB, partitions int32, records ...Record) {
	t.Helper()
	for _, r := range records {
		value, err := appendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		of := tier.PartitionID{}
		switch r := r.(type) {
		case *Segment:
			of = r.Partition
		case *Update:
			of = r.Partition
		case *PartitionDelete:
			of = r.Partition
		}
		s.raw(t, PartitionOf(of, partitions), value)
	}
}

// dumped writes the records of a frozen cluster.
func (s *harness) dumped(t testing.TB, f *clusterfixture.Fixture) {
	t.Helper()
	byPartition := map[int32][][]byte{}
	for _, m := range f.Metadata {
		byPartition[m.Partition] = append(byPartition[m.Partition], m.Value)
	}
	for p, values := range byPartition {
		s.raw(t, p, values...)
	}
}

func (s *harness) open(t testing.TB, opt Options) *Follower {
	t.Helper()
	if opt.Brokers == nil {
		opt.Brokers = s.dial(t)
	}
	if opt.Cluster == nil {
		opt.Cluster = &scriptedcluster.Cluster{}
	}
	f, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// ready waits until f is.
func ready(t testing.TB, f *Follower) {
	t.Helper()
	until(t, f, func() bool { return f.Ready() == nil })
}

// until waits for the follower to have come so far.
func until(t testing.TB, f *Follower, so func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come: %v, %+v", f.Ready(), f.Status())
		}
	}
}

func refreshed(t testing.TB, f *Follower) *tier.Snapshot {
	t.Helper()
	if err := f.Refresh(t.Context(), tier.PartitionID{}); err != nil {
		t.Fatal(err)
	}
	return f.Snapshot()
}

// sameView compares what two views say of segments: all of them, which is read for which offset, and what is kept
// beside.
func sameView(t testing.TB, got, want *tier.Snapshot) {
	t.Helper()
	if got.Segments() != want.Segments() {
		t.Errorf("%d segments, want %d", got.Segments(), want.Segments())
	}
	compare := func(p *tier.Partition) {
		q, ok := got.Partition(p.ID())
		if !ok {
			if len(p.Segments(true)) > 0 {
				t.Errorf("%v is missing", p.ID())
			}
			return
		}
		if a, b := listing(q), listing(p); !slices.Equal(a, b) {
			t.Errorf("%v holds\n%v, want\n%v", p.ID(), a, b)
		}
	}
	for p := range want.Partitions() {
		compare(p)
	}
	for p := range got.Partitions() {
		if _, ok := want.Partition(p.ID()); !ok && len(p.Segments(true)) > 0 {
			t.Errorf("%v is too many", p.ID())
		}
	}
	for _, topic := range want.Topics() {
		if is, ok := got.TopicByName(topic.Name); !ok || is.ID != topic.ID {
			t.Errorf("topic %s is %v, want %v", topic.Name, is.ID, topic.ID)
		}
	}
}

// listing is a partition in words: each segment, and what each offset around its borders is read from.
func listing(p *tier.Partition) (lines []string) {
	offsets := map[int64]bool{}
	for _, s := range p.Segments(true) {
		lines = append(lines, words(s, p))
		for _, o := range []int64{s.BaseOffset, s.EndOffset} {
			offsets[o-1], offsets[o], offsets[o+1] = true, true, true
		}
	}
	for _, o := range slices.Sorted(maps.Keys(offsets)) {
		if s, ok := p.Find(o); ok {
			lines = append(lines, s.ID.String())
		}
	}
	return append(lines, fmt.Sprint(p.HighestOfEpochs(), p.Lineage()))
}

func words(s *tier.Segment, p *tier.Partition) string {
	w, _ := describe(&Segment{*s})
	if len(p.Shadowed(s)) > 0 {
		w += " shadowed"
	}
	return w
}

// bounded is a partition that the cluster knows.
func bounded(number int32, start, end int64) cluster.Partition {
	return cluster.Partition{
		Number: number, LogStart: start, LocalStart: start + 1, LastStable: end - 1, HighWatermark: end,
		Lineage: []segment.EpochStart{{Epoch: 4, StartOffset: start}},
	}
}

func unbounded(number int32) cluster.Partition {
	return cluster.Partition{Number: number, Leader: -1, LogStart: -1, LocalStart: -1, LastStable: -1, HighWatermark: -1}
}

// settled is a follower of a topic that holds records, and of a cluster that has topics.
func settled(t *testing.T, c *scriptedcluster.Cluster, records ...Record) (*harness, *Follower) {
	t.Helper()
	s := newHarness(t, 4)
	s.write(t, 4, records...)
	f := s.open(t, Options{Cluster: c})
	ready(t, f)
	return s, f
}
