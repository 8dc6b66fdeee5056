package kafka

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/catalog"
	"coldtap/cluster"
	"coldtap/internal/errkind"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replayOf is what a tier makes of a frozen cluster's records, one by one.
func replayOf(t testing.TB, f *clusterfixture.Fixture) *tier.Snapshot {
	t.Helper()
	m := tier.New()
	for _, r := range f.Metadata {
		record, err := Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(Changes(nil, record)...)
	}
	return m.Snapshot()
}

// fixtures are all frozen clusters, by name.
func fixtures(t testing.TB) map[string]*clusterfixture.Fixture {
	sets := map[string]*clusterfixture.Fixture{"kafka-local": clusterfixture.Load(t)}
	for _, s := range clusterfixture.LoadAiven(t) {
		sets[s.Name] = s.Fixture
	}
	return sets
}

// TestFollowsRealRecords: what a follower makes of real brokers' topics is what they replay to, and the snapshot file
// gives the same again.
func TestFollowsRealRecords(t *testing.T) {
	for name, set := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, DefaultPartitions)
			s.dumped(t, set)
			path := t.TempDir() + "/metadata"
			f := s.open(t, Options{Snapshot: path})
			ready(t, f)
			if n := f.Status().Records; n != int64(len(set.Metadata)) {
				t.Errorf("%d records are read, want %d", n, len(set.Metadata))
			}
			sameView(t, f.Snapshot(), replayOf(t, set))
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			again := s.open(t, Options{Snapshot: path})
			ready(t, again)
			if n := again.Status().Records; n != 0 {
				t.Errorf("%d records are read again", n)
			}
			sameView(t, again.Snapshot(), replayOf(t, set))
		})
	}
}

// started is a segment's first record.
func started(n byte, of tier.PartitionID, base, end int64) *Segment {
	return &Segment{tier.Segment{
		ID: segment.UUID{0: 7, 15: n}, Partition: of, Topic: "orders", BaseOffset: base, EndOffset: end, BrokerID: 1,
		MaxTimestamp: 1000 + end, EventTime: 2000 + end, Size: 1000, Epochs: []segment.EpochStart{{Epoch: 4, StartOffset: base}},
	}}
}

func moved(s *Segment, state tier.State) *Update {
	return &Update{s.Topic, tier.SegmentUpdated{Partition: s.Partition, ID: s.ID, BrokerID: 1, At: s.EventTime + 10*int64(state), State: state}}
}

// finished is a segment that was copied.
func finished(n byte, of tier.PartitionID, base, end int64) []Record {
	s := started(n, of, base, end)
	return []Record{s, moved(s, tier.CopyFinished)}
}

func isReadable(s *tier.Snapshot, of tier.PartitionID, id segment.UUID) bool {
	p, ok := s.Partition(of)
	return ok && p.Readable(id)
}

// TestN16BadRecordsCostThemselvesOnly: records that are cut, garbage, null, of unknown type or version, or that tell of
// nothing known, between good ones.
func TestN16BadRecordsCostThemselvesOnly(t *testing.T) {
	s := newHarness(t, 1)
	first, second := started(1, orders3, 0, 99), started(2, orders3, 100, 199)
	gone := started(3, orders3, 200, 299)
	good := func(r Record) []byte {
		value, err := appendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	newer := good(second)
	newer[2] = 1                                                        // message version 1, and a tag that nobody knows
	newer = append(newer[:len(newer)-1], 1, 9, 4, 1, 2, 3, 4)           //
	huge := append([]byte{1, 0, 0, 7}, bytes.Repeat([]byte{255}, 9)...) // a name, then numbers that are none
	s.raw(t, 0,
		good(first), good(first), nil, good(moved(first, tier.CopyFinished))[:20], []byte("garbage"), huge,
		[]byte{1, 9, 0}, []byte{1, 0, 7}, []byte{1, 9, 0}, unhex(t, goldenSnapshot),
		good(moved(gone, tier.CopyFinished)), // unknown
		good(moved(first, tier.CopyFinished)),
		newer, good(moved(second, tier.CopyFinished)),
		good(gone), good(moved(gone, tier.CopyFinished)), good(moved(gone, tier.DeleteStarted)), good(moved(gone, tier.DeleteStarted)),
		good(moved(gone, tier.DeleteFinished)), good(moved(gone, tier.CopyFinished)),
	)
	var log syncBuffer
	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: reg})
	ready(t, f)
	clean := tier.New()
	for _, r := range append(finished(1, orders3, 0, 99), finished(2, orders3, 100, 199)...) {
		clean.Apply(Changes(nil, r)...)
	}
	if p, ok := f.Snapshot().Partition(orders3); !ok || len(p.Segments(false)) != 2 || f.Snapshot().Segments() != 2 {
		t.Fatalf("%+v", p)
	}
	for _, id := range []segment.UUID{first.ID, second.ID} {
		if !isReadable(f.Snapshot(), orders3, id) {
			t.Errorf("%v is not readable", id)
		}
	}
	for kind, want := range map[Kind]float64{NullValue: 1, Malformed: 2, UnknownFrame: 1, UnknownRecord: 3, UnknownVersion: 1, TooLarge: 0} {
		if got := sampleOf(t, reg, "coldtap_catalog_topic_unreadable_records_total", errkind.Label(kind)); got != want {
			t.Errorf("%v of %v, want %v", got, kind, want)
		}
		if got := strings.Count(log.String(), "kind="+errkind.Label(kind)); got != min(1, int(want)) {
			t.Errorf("%v is logged %d times", kind, got)
		}
	}
	if got := sampleOf(t, reg, "coldtap_catalog_rejected_changes_total", tier.ReasonUnknownSegment); got != 2 {
		t.Errorf("%v updates of unknown segments", got)
	}
	// It goes on behind them.
	s.write(t, 1, finished(4, orders3, 200, 299)...)
	if !isReadable(refreshed(t, f), orders3, started(4, orders3, 200, 299).ID) {
		t.Error("what came later is not there")
	}
}

// sampleOf gives a sample's value; label is the value of its one label, empty for none.
func sampleOf(t testing.TB, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label != "" && m.GetLabel()[0].GetValue() != label {
				continue
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func wantKind(t testing.TB, err error, kind catalog.Kind) {
	t.Helper()
	if e, ok := errors.AsType[*catalog.Error](err); !ok || e.Kind != kind {
		t.Fatalf("%v, want an error of kind %d", err, kind)
	}
}

// TestH6NotReadyUntilAllIsKnown: while the topic is being read, and until the cluster has told the bounds, nothing may
// be answered.
func TestH6NotReadyUntilAllIsKnown(t *testing.T) {
	s := newHarness(t, 4)
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	s.fail(kmsg.Fetch.Int16(), true)
	c := &scriptedcluster.Cluster{}
	c.SetAway(errors.New("away"))
	f := s.open(t, Options{Cluster: c})
	until(t, f, func() bool { return f.Status().Trouble != nil })
	wantKind(t, f.Ready(), catalog.NotReady)
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{}), catalog.NotReady)
	if n := f.Snapshot().Segments(); n != 0 {
		t.Errorf("%d segments", n)
	}
	s.fail(kmsg.Fetch.Int16(), false)
	until(t, f, func() bool { return f.Snapshot().Segments() == 1 })
	wantKind(t, f.Ready(), catalog.NotReady)
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable)
	c.SetAway(nil)
	ready(t, f)
	if !slices.Equal(c.Watched(), []segment.UUID{ordersID}) {
		t.Errorf("%v are watched", c.Watched())
	}
}

// TestBrokersAwayAndBack: what is known stays, Refresh says no, and all goes on afterwards.
func TestBrokersAwayAndBack(t *testing.T) {
	s := newHarness(t, 4)
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Registerer: reg})
	ready(t, f)
	before := f.Status()
	if before.Trouble != nil || before.Lag != 0 || before.AsOf.IsZero() || before.ClusterAt.IsZero() || before.Partitions != 4 {
		t.Errorf("%+v", before)
	}
	s.fail(-1, true)
	until(t, f, func() bool { return f.Status().Trouble != nil })
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error)
	go func() { asked <- f.Refresh(ctx, tier.PartitionID{}) }()
	cancel()
	wantKind(t, <-asked, catalog.Unavailable)
	if err := f.Ready(); err != nil || f.Snapshot().Segments() != 1 {
		t.Errorf("%v with %d segments", err, f.Snapshot().Segments())
	}
	if sampleOf(t, reg, "coldtap_catalog_polls_total", "unavailable") == 0 || sampleOf(t, reg, "coldtap_catalog_topic_view_age_seconds", "") < 0 {
		t.Error("no metric says it")
	}
	s.fail(-1, false)
	until(t, f, func() bool { return f.Status().Trouble == nil })
	s.write(t, 4, finished(2, orders3, 100, 199)...)
	if n := refreshed(t, f).Segments(); n != 2 {
		t.Errorf("%d segments", n)
	}
	if now := f.Status(); now.AsOf.Before(before.AsOf) || now.Records != 4 {
		t.Errorf("%+v", now)
	}
}

// TestLeadersMove: a partition is followed wherever it goes.
func TestLeadersMove(t *testing.T) {
	s := newHarness(t, 2)
	f := s.open(t, Options{})
	ready(t, f)
	for n := range byte(4) {
		for p := range int32(2) {
			if err := s.MoveTopicPartition(Name, p, int32(n+byte(p))%3); err != nil {
				t.Fatal(err)
			}
		}
		s.write(t, 2, finished(n, orders3, int64(n)*100, int64(n)*100+99)...)
		until(t, f, func() bool { return f.Snapshot().Segments() == int(n)+1 })
	}
	refreshed(t, f)
}

// TestOneBrokerAway: what the others lead is followed meanwhile, and its own partitions when it is back.
func TestOneBrokerAway(t *testing.T) {
	s := newHarness(t, 2)
	for p := range int32(2) {
		if err := s.MoveTopicPartition(Name, p, p); err != nil {
			t.Fatal(err)
		}
	}
	s.newWriter(t)
	f := s.open(t, Options{})
	ready(t, f)
	s.mu.Lock()
	s.noFetch = 0
	s.mu.Unlock()
	until(t, f, func() bool { return f.Status().Trouble != nil })
	for n := range byte(5) {
		for _, r := range finished(n, orders3, int64(n)*100, int64(n)*100+99) {
			value, _ := appendRecord(nil, r)
			s.raw(t, 1, value)
		}
		until(t, f, func() bool { return isReadable(f.Snapshot(), orders3, segment.UUID{0: 7, 15: n}) })
	}
	other := tier.PartitionID{Topic: ordersID, Partition: 4}
	for _, r := range finished(9, other, 0, 99) {
		value, _ := appendRecord(nil, r)
		s.raw(t, 0, value)
	}
	s.mu.Lock()
	s.noFetch = -1
	s.mu.Unlock()
	until(t, f, func() bool {
		return isReadable(f.Snapshot(), other, segment.UUID{0: 7, 15: 9}) && f.Status().Trouble == nil
	})
}

// TestOnlyReads: nothing but questions reaches the cluster.
func TestOnlyReads(t *testing.T) {
	s := newHarness(t, 4)
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	s.writer.Close()
	s.resetCounts()
	f := s.open(t, Options{Snapshot: t.TempDir() + "/metadata"})
	ready(t, f)
	refreshed(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Walk(t.Context(), s.dial(t), "", func(Entry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.asked {
		if !readOnly[key] {
			t.Errorf("%s was sent", kmsg.Key(key).Name())
		}
	}
	if s.asked[kmsg.Fetch.Int16()] == 0 {
		t.Error("requests are not seen")
	}
}

// TestDoesNotCreateTheTopic: a cluster that never tiered has none, and gets none, even where brokers create what
// clients ask for.
func TestDoesNotCreateTheTopic(t *testing.T) {
	s := newHarness(t, 4)
	f := s.open(t, Options{Topic: "no_such_topic"})
	until(t, f, func() bool { return errors.Is(f.Status().Trouble, cluster.ErrNoTopic) })
	wantKind(t, f.Ready(), catalog.NotReady)
	if s.TopicInfo("no_such_topic") != nil {
		t.Error("it was created")
	}
}

// TestDeletedSegmentsLeaveCaches: the moment DELETE_STARTED is read, or the partition's end, reads stop and caches are
// told.
func TestDeletedSegmentsLeaveCaches(t *testing.T) {
	s := newHarness(t, 4)
	other := tier.PartitionID{Topic: ordersID, Partition: 4}
	s.write(t, 4, finished(1, orders3, 0, 99)...)
	s.write(t, 4, finished(2, orders3, 100, 199)...)
	s.write(t, 4, finished(3, other, 0, 99)...)
	s.write(t, 4, finished(4, other, 100, 199)...)
	var f *Follower
	told := make(chan segment.UUID, 10)
	opened := make(chan struct{})
	f = s.open(t, Options{OnDelete: func(seg *tier.Segment) {
		<-opened
		if isReadable(f.Snapshot(), seg.Partition, seg.ID) {
			t.Errorf("%v is still readable", seg.ID)
		}
		told <- seg.ID
	}})
	close(opened)
	ready(t, f)
	first := started(1, orders3, 0, 99)
	s.write(t, 4, moved(first, tier.DeleteStarted), moved(first, tier.DeleteStarted), moved(first, tier.DeleteFinished))
	if id := <-told; id != first.ID {
		t.Errorf("%v left", id)
	}
	s.write(t, 4, &PartitionDelete{"orders", other, 1, 5000, DeleteFinished})
	if ids := []segment.UUID{<-told, <-told}; ids[0][15] != 3 || ids[1][15] != 4 {
		t.Errorf("%v left", ids)
	}
	if n := refreshed(t, f).Segments(); n != 1 {
		t.Errorf("%d segments", n)
	}
	if len(told) > 0 {
		t.Errorf("%v was told of twice, or should not have been", <-told)
	}
}

// TestTransactionsAndGaps: offsets that hold no record for consumers don't keep the view from being complete.
func TestTransactionsAndGaps(t *testing.T) {
	s := newHarness(t, 1)
	txn, err := kgo.NewClient(append(s.options(), kgo.TransactionalID("x"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Close()
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	value, _ := appendRecord(nil, started(2, orders3, 100, 199))
	if err := txn.ProduceSync(t.Context(), &kgo.Record{Topic: Name, Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := txn.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	f := s.open(t, Options{})
	ready(t, f)
	if n := refreshed(t, f).Segments(); n != 2 {
		t.Errorf("%d segments", n)
	}
	if st := f.Status(); st.Records != 3 || st.Lag != 0 {
		t.Errorf("%+v", st)
	}
}

// TestRefreshTogether: whoever returns from Refresh sees what was written before it was called.
func TestRefreshTogether(t *testing.T) {
	s := newHarness(t, 4)
	f := s.open(t, Options{})
	ready(t, f)
	var all sync.WaitGroup
	for n := range byte(8) {
		all.Go(func() {
			of := tier.PartitionID{Topic: ordersID, Partition: int32(n)}
			for i := range byte(5) {
				s.write(t, 4, finished(10*n+i, of, int64(i)*100, int64(i)*100+99)...)
				if err := f.Refresh(t.Context(), tier.PartitionID{}); err != nil {
					t.Error(err)
					return
				}
				if !isReadable(f.Snapshot(), of, segment.UUID{0: 7, 15: 10*n + i}) {
					t.Errorf("segment %d of partition %d is not there", i, n)
				}
			}
		})
	}
	all.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable)
}

// TestRecordsOutOfPlaceCount: a record in another metadata partition than the mapping says is used and counted.
func TestRecordsOutOfPlaceCount(t *testing.T) {
	s := newHarness(t, 7)
	at := (PartitionOf(orders3, 7) + 1) % 7
	for _, r := range finished(1, orders3, 0, 99) {
		value, _ := appendRecord(nil, r)
		s.raw(t, at, value)
	}
	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Registerer: reg})
	ready(t, f)
	if n := f.Snapshot().Segments(); n != 1 {
		t.Errorf("%d segments", n)
	}
	if n := sampleOf(t, reg, "coldtap_catalog_topic_misplaced_records_total", ""); n != 2 {
		t.Errorf("%v records are out of place", n)
	}
}

// TestOptionsThatCannotWork is all that Open refuses.
func TestOptionsThatCannotWork(t *testing.T) {
	_, err := Open(t.Context(), Options{})
	wantKind(t, err, catalog.Unavailable)
	_, err = Open(t.Context(), Options{Cluster: &scriptedcluster.Cluster{}})
	wantKind(t, err, catalog.Unavailable)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Open(done, Options{Cluster: &scriptedcluster.Cluster{}, Brokers: newHarness(t, 1).dial(t)})
	wantKind(t, err, catalog.Unavailable)
}
