package clusterfixture_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/bench/simstore"
	"coldtap/fetch"
	"coldtap/internal/assembly"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
	"coldtap/internal/testing/replaycluster"
	"coldtap/layout"
	"coldtap/layout/local"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var isolations = map[string]fetch.Isolation{"read_committed": fetch.ReadCommitted, "read_uncommitted": fetch.ReadUncommitted}

// harness is the read path over the frozen cluster.
type harness struct {
	*fetch.Service
	fixture *clusterfixture.Fixture
	tier    *tier.Tier
	store   *faultstore.Store
	memory  *simstore.Memory // under store
	layout  layout.Reader
	path    *assembly.ReadPath
	log     logged
}

// logged is what the read path logs.
type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// knowledge is what the tier is told beside the metadata topic.
type knowledge uint8

const (
	clusterKnown  knowledge = iota // bounds and lineage, as a live cluster tells them
	lineageHidden                  // bounds, but the lineage has to be made of the segments
)

func newHarness(t *testing.T, k knowledge) *harness {
	t.Helper()
	lineage := func(_ *harness, p *clusterfixture.Partition) string { return p.LeaderEpochs }
	if k == lineageHidden {
		lineage = nil
	}
	// Chunks are smaller than most batches' neighbourhoods, so that batches straddle two and more; the memory holds a
	// twentieth of the logs.
	return newStandOver(t, clusterfixture.Load(t), 8<<10, lineage, func(c *rangeio.Client) layout.Reader { return local.New(c, "") })
}

// newStandOver reads in chunks of so many bytes. lineage gives the content of a partition's leader-epoch checkpoint;
// nil: the tier makes the lineage of the segments.
func newStandOver(t *testing.T, f *clusterfixture.Fixture, chunk int64, lineage func(*harness, *clusterfixture.Partition) string,
	over func(*rangeio.Client) layout.Reader,
) *harness {
	t.Helper()
	mem := simstore.NewMemory()
	for key, b := range f.Objects {
		mem.Set(key, b)
	}
	s := &harness{fixture: f, tier: tier.New(), store: faultstore.New(mem), memory: mem}
	s.layout = over(rangeio.NewClient(s.store, rangeio.Config{Attempts: 2, MaxBackoff: time.Millisecond}))
	if rejected := s.replay(t); len(rejected) > 0 {
		t.Errorf("%d events of real brokers were rejected, the first one for %s", len(rejected), rejected[0].Reason)
	}
	s.describe(t, lineage)
	path, err := assembly.New(assembly.Options{
		Source: source{s.tier.Snapshot, f.Cluster.ClusterID}, Layout: s.layout,
		ChunkMemory: max(512<<10, 16*chunk), Chunk: chunk, IndexMemory: 1 << 20, DecodeMemory: 32 << 20,
		Threads: 4, MaxPending: 100, QueueTimeout: 10 * time.Second,
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Service, s.path = path.Service, path
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := path.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// replay applies the metadata topic, from its beginning, as a broker would, and gives what the tier refused.
func (s *harness) replay(t *testing.T) (rejected []tier.Rejected) {
	t.Helper()
	return replaycluster.Apply(t, s.fixture, s.tier)
}

// describe tells the tier what only a live cluster knows.
func (s *harness) describe(t *testing.T, lineage func(*harness, *clusterfixture.Partition) string) {
	t.Helper()
	var changes []tier.Change
	for _, p := range s.fixture.Partitions() {
		id := partitionID(p)
		changes = append(changes, tier.TopicSeen{ID: id.Topic, Name: p.Topic.Name}, tier.BoundsChanged{Partition: id, Bounds: tier.Bounds{
			Start: p.Start, LocalStart: p.LocalStart, HighWatermark: p.HighWatermark, LastStable: p.LastStable,
		}})
		if lineage == nil {
			continue
		}
		epochs, err := segment.ParseEpochCheckpoint([]byte(lineage(s, p)))
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, tier.LineageChanged{Partition: id, Epochs: epochs})
	}
	for _, r := range s.tier.Apply(changes...) {
		t.Errorf("%+v was rejected: %s", r.Change, r.Reason)
	}
}

func partitionID(p *clusterfixture.Partition) tier.PartitionID {
	return tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number}
}

// view is the tier's partition.
func (s *harness) view(t *testing.T, p *clusterfixture.Partition) *tier.Partition {
	t.Helper()
	v, ok := s.tier.Snapshot().Partition(partitionID(p))
	if !ok {
		t.Fatalf("%s is not in the tier", p.Name())
	}
	return v
}

// request is a read of p from offset on.
func request(p *clusterfixture.Partition, offset int64, isolation string) fetch.Request {
	return fetch.Request{Topic: p.Topic.Name, Partition: p.Number, Offset: offset, EndOffset: -1, EndTimestamp: -1,
		MaxBytes: 1 << 20, Isolation: isolations[isolation], Timeout: 30 * time.Second}
}

// answer is how a read ended.
type answer struct {
	end     fetch.EndReason
	decided int64
	next    int64
}

// records gives each record of one answer to fn.
func (s *harness) records(t *testing.T, r fetch.Request, fn func(*segment.Record)) answer {
	t.Helper()
	st := s.open(t, &r)
	defer st.Close()
	var rec segment.Record
	for {
		err := st.NextRecord(t.Context(), &rec)
		if errors.Is(err, io.EOF) {
			return answered(st)
		}
		if err != nil {
			t.Fatalf("%s-%d at %d: %v", r.Topic, r.Partition, st.NextOffset(), err)
		}
		fn(&rec)
	}
}

// raw gives the stored batches of one answer.
func (s *harness) raw(t *testing.T, r fetch.Request) ([]byte, answer) {
	t.Helper()
	st := s.open(t, &r)
	defer st.Close()
	var (
		run fetch.Run
		all []byte
	)
	defer run.Release()
	for {
		err := st.NextRun(t.Context(), &run)
		if errors.Is(err, io.EOF) {
			return all, answered(st)
		}
		if err != nil {
			t.Fatalf("%s-%d at %d: %v", r.Topic, r.Partition, st.NextOffset(), err)
		}
		all = append(all, run.Bytes()...)
	}
}

func (s *harness) open(t *testing.T, r *fetch.Request) *fetch.Stream {
	t.Helper()
	st, err := s.Open(t.Context(), r)
	if err != nil {
		t.Fatalf("%s-%d from %d: %v", r.Topic, r.Partition, r.Offset, err)
	}
	return st
}

func answered(st *fetch.Stream) answer {
	end, decided := st.End()
	return answer{end, decided, st.NextOffset()}
}

// source is a catalog whose topic stands still.
type source struct {
	snapshot  func() *tier.Snapshot
	clusterID string
}

func (s source) Snapshot() *tier.Snapshot                        { return s.snapshot() }
func (s source) Ready() error                                    { return nil }
func (s source) Refresh(context.Context, tier.PartitionID) error { return nil }
func (s source) ClusterID() string                               { return s.clusterID }
