package kafka

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coldtap/cluster"
	"coldtap/internal/testing/scriptedcluster"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestUncleanElectionOfTheMetadataTopic: a leader whose log parted from what was read says so, whatever the offsets,
// and all is read again. A snapshot file keeps what it takes to be told.
func TestUncleanElectionOfTheMetadataTopic(t *testing.T) {
	s := newHarness(t, 1)
	if err := s.MoveTopicPartition(Name, 0, (s.LeaderFor(Name, 0)+1)%3); err != nil {
		t.Fatal(err)
	}
	s.newWriter(t)
	epoch := s.PartitionInfo(Name, 0).Epoch
	if epoch == 0 {
		t.Fatal("the leader epoch tells nothing")
	}
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	path := filepath.Join(t.TempDir(), "metadata")
	// parted answers who was there before that the log is another one since offset 1, until it is read from the start. A
	// request that a closed follower left behind is answered too, and changes nothing.
	parted := func() (told chan position) {
		told = make(chan position, 1)
		anew := false
		s.mu.Lock()
		defer s.mu.Unlock()
		s.serve = func(req *kmsg.FetchRequest) kmsg.Response {
			p := &req.Topics[0].Partitions[0]
			if anew = anew || p.FetchOffset == 0; anew {
				return nil
			}
			select {
			case told <- position{offset: p.FetchOffset, epoch: p.LastFetchedEpoch}:
			default:
			}
			return answering(req, func(p *kmsg.FetchResponseTopicPartition) {
				p.HighWatermark = 2
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = epoch, 1
			})
		}
		return told
	}
	want := position{offset: 2, epoch: epoch}

	reg := prometheus.NewRegistry()
	f := s.open(t, Options{Snapshot: path, Registerer: reg})
	ready(t, f)
	told := parted()
	until(t, f, func() bool { return sampleOf(t, reg, "coldtap_catalog_full_loads_total", "") == 2 })
	if got := <-told; got != want {
		t.Errorf("it was read up to %+v, want %+v", got, want)
	}
	ready(t, f)
	if n := f.Status().Records; n != 4 || f.Snapshot().Segments() != 1 {
		t.Errorf("%d records are read", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	told = parted()
	again := s.open(t, Options{Snapshot: path})
	until(t, again, func() bool { return again.Status().Records == 2 })
	if got := <-told; got != want {
		t.Errorf("the file was read up to %+v, want %+v", got, want)
	}
	ready(t, again)
}

// TestLeaderThatRefusesItsOwnStart is asked again, at growing distances: nothing that it says can make the follower
// spin.
func TestLeaderThatRefusesItsOwnStart(t *testing.T) {
	s := newHarness(t, 1)
	s.raw(t, 0, []byte("v"))
	times := make(chan time.Time, 4)
	s.serve = func(req *kmsg.FetchRequest) kmsg.Response {
		select {
		case times <- time.Now():
		default:
		}
		return answering(req, func(p *kmsg.FetchResponseTopicPartition) { p.ErrorCode = kerr.OffsetOutOfRange.Code })
	}
	f := s.open(t, Options{})
	until(t, f, func() bool { return len(times) == cap(times) })
	first := <-times
	<-times
	<-times
	if took, least := (<-times).Sub(first), 7*firstPause; took < least {
		t.Errorf("four times within %v, want %v at least", took, least)
	}
	if err := f.Status().Trouble; err == nil || !strings.Contains(err.Error(), "does not hold offset 0") || f.Ready() == nil {
		t.Errorf("%v, ready %v", err, f.Ready())
	}
}

// slowly is a cluster of which one view takes until it is let go.
type slowly struct {
	*scriptedcluster.Cluster
	turns chan chan struct{} // what the next Refresh waits for, after it has told so once
}

func (s *slowly) Refresh(ctx context.Context) error {
	err := s.Cluster.Refresh(ctx)
	select {
	case turn := <-s.turns:
		turn <- struct{}{}
		<-turn
	default:
	}
	return err
}

// TestAnAnswerForAViewThatWasReplaced does not make the new view's answer forgotten, which would be for ever.
func TestAnAnswerForAViewThatWasReplaced(t *testing.T) {
	s := newHarness(t, 1)
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	c := &slowly{&scriptedcluster.Cluster{}, make(chan chan struct{}, 1)}
	f := s.open(t, Options{Cluster: c})
	ready(t, f)
	old := f.view.Load()
	slow := make(chan struct{})
	c.turns <- slow
	asked := make(chan error, 1)
	go func() { asked <- f.Refresh(t.Context(), tier.PartitionID{}) }()
	<-slow
	if err := s.DeleteTopic(Name); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateTopic(Name, 1, nil); err != nil {
		t.Fatal(err)
	}
	until(t, f, func() bool { return f.view.Load() != old && f.Ready() == nil })
	close(slow)
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if err := f.Ready(); err != nil {
		t.Error(err)
	}
}

// TestRefreshWhenTheTopicWasMadeAnew: offsets of the new topic say nothing of the one that was read.
func TestRefreshWhenTheTopicWasMadeAnew(t *testing.T) {
	s := newHarness(t, 1)
	f := s.open(t, Options{})
	ready(t, f)
	at := *f.leaders.Load()
	at.TopicID, at.Partitions = segment.UUID{1}, []cluster.Leader{{Broker: at.Partitions[0].Broker, Epoch: at.Partitions[0].Epoch + 5}}
	f.leaders.Store(&at)
	if err := f.Refresh(t.Context(), tier.PartitionID{}); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Error(err)
	}
}

// TestAsOfOfATopicWhoseEndIsFar: what was there at the start is read, and the newest end was never reached.
func TestAsOfOfATopicWhoseEndIsFar(t *testing.T) {
	s := newHarness(t, 1)
	s.raw(t, 0, []byte("v"))
	s.serve = func(req *kmsg.FetchRequest) kmsg.Response {
		return answering(req, func(p *kmsg.FetchResponseTopicPartition) {
			if req.Topics[0].Partitions[0].FetchOffset > 0 {
				p.ErrorCode = kerr.LeaderNotAvailable.Code
				return
			}
			p.HighWatermark, p.RecordBatches = 1000, batchOf(t, 0, kgo.NoCompression(), []byte("v"))
		})
	}
	before := time.Now()
	f := s.open(t, Options{})
	ready(t, f)
	if st := f.Status(); st.AsOf.Before(before) || st.Lag != 999 {
		t.Errorf("%+v", st)
	}
}

// TestAsOfIsKnownWhenReady, even while the topic grows faster than it is read.
func TestAsOfIsKnownWhenReady(t *testing.T) {
	p := newProgress()
	start := time.Unix(1000, 0)
	p.restart([]int64{0, 5}, []int64{10, 5}, start)
	p.applied([]digest{{partition: 0, next: position{offset: 10}, end: 20}}, start.Add(time.Second))
	if s := p.status(); !s.AsOf.IsZero() {
		t.Errorf("%+v", s)
	}
	p.complete(start)
	if s := p.status(); s.AsOf != start || s.Lag != 10 {
		t.Errorf("%+v", s)
	}
	// The topic gets a partition of which something is to be read.
	p.restart([]int64{10, 5, 0}, []int64{20, 5, 7}, start.Add(time.Hour))
	if s := p.status(); s.AsOf != start {
		t.Errorf("%+v", s)
	}
	p.applied([]digest{{partition: 0, next: position{offset: 20}, end: 20}}, start.Add(2*time.Hour))
	if s := p.status(); s.AsOf != start.Add(time.Hour-relocateEvery) {
		t.Errorf("%+v", s)
	}
}
