package kafka

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stopped is a follower that wrote its file and is closed.
func stopped(t *testing.T, s *harness, path string) {
	t.Helper()
	f := s.open(t, Options{Snapshot: path})
	ready(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRestartReadsOnlyWhatIsNew, and segments that were deleted meanwhile leave what caches are left.
func TestRestartReadsOnlyWhatIsNew(t *testing.T) {
	s := newHarness(t, 1)
	path := filepath.Join(t.TempDir(), "metadata")
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	s.write(t, 1, finished(2, orders3, 100, 199)...)
	stopped(t, s, path)
	s.write(t, 1, finished(3, orders3, 200, 299)...)
	s.write(t, 1, moved(started(1, orders3, 0, 99), tier.DeleteStarted))
	s.resetCounts()
	reg := prometheus.NewRegistry()
	var gone []segment.UUID
	f := s.open(t, Options{Snapshot: path, Registerer: reg, OnDelete: func(seg *tier.Segment) { gone = append(gone, seg.ID) }})
	ready(t, f)
	if n := f.Status().Records; n != 3 {
		t.Errorf("%d records are read", n)
	}
	s.mu.Lock()
	first := s.fetched[0]
	s.mu.Unlock()
	if first.offset != 4 {
		t.Errorf("it reads from %d on", first.offset)
	}
	p, _ := f.Snapshot().Partition(orders3)
	if len(p.Segments(false)) != 2 || len(p.Segments(true)) != 3 {
		t.Errorf("%v", p.Segments(true))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if len(gone) != 1 || gone[0] != started(1, orders3, 0, 99).ID {
		t.Errorf("%v are gone", gone)
	}
	if n := sampleOf(t, reg, "coldtap_catalog_topic_snapshot_reads_total", "used"); n != 1 {
		t.Errorf("the file was used %v times", n)
	}
}

// TestSnapshotFileIsWrittenWhileFollowing, so that a crash costs a few minutes of records.
func TestSnapshotFileIsWrittenWhileFollowing(t *testing.T) {
	s := newHarness(t, 1)
	path := filepath.Join(t.TempDir(), "metadata")
	f := s.open(t, Options{Snapshot: path, SnapshotEvery: time.Nanosecond})
	ready(t, f)
	for n := range byte(3) {
		s.write(t, 1, finished(n, orders3, int64(n)*100, int64(n)*100+99)...)
		until(t, f, func() bool {
			file, err := loadSnapshot(path)
			return err == nil && file.positions[0] == 2*int64(n+1) && file.view.Segments() == int(n)+1
		})
	}
}

// TestFilesThatDoNotFit are no error: the whole topic is read.
func TestFilesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		outcome string
		spoil   func(t *testing.T, s *harness, path string) *harness
	}{
		"damaged": {"damaged", func(t *testing.T, s *harness, path string) *harness {
			if err := os.WriteFile(path, []byte("coldtap\x01 and more"), 0o600); err != nil {
				t.Fatal(err)
			}
			return s
		}},
		"of another cluster": {"refused", func(t *testing.T, _ *harness, _ string) *harness {
			s := newHarness(t, 1, kfake.ClusterID("other"))
			s.write(t, 1, finished(1, orders3, 0, 99)...)
			return s
		}},
		"of another cluster, by its id only": {"refused", func(t *testing.T, s *harness, path string) *harness {
			file, err := loadSnapshot(path)
			if err != nil {
				t.Fatal(err)
			}
			file.clusterID = "other"
			if err := saveSnapshot(path, &file.replayed); err != nil {
				t.Fatal(err)
			}
			return s
		}},
		"the topic was made anew": {"refused", func(t *testing.T, s *harness, _ string) *harness {
			if err := s.DeleteTopic(Name); err != nil {
				t.Fatal(err)
			}
			if err := s.CreateTopic(Name, 1, nil); err != nil {
				t.Fatal(err)
			}
			s.newWriter(t)
			for range 3 {
				s.write(t, 1, finished(1, orders3, 0, 99)...)
			}
			return s
		}},
		"records were lost unread": {"refused", func(t *testing.T, s *harness, _ string) *harness {
			s.write(t, 1, finished(2, orders3, 100, 199)...)
			s.write(t, 1, finished(1, orders3, 0, 99)...)
			if err := s.DeleteRecords(Name, 0, 6); err != nil {
				t.Fatal(err)
			}
			return s
		}},
		"the topic ends before it": {"refused", func(t *testing.T, s *harness, path string) *harness {
			file, err := loadSnapshot(path)
			if err != nil {
				t.Fatal(err)
			}
			file.positions[0] += 10
			if err := saveSnapshot(path, &file.replayed); err != nil {
				t.Fatal(err)
			}
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, 1)
			path := filepath.Join(t.TempDir(), "metadata")
			s.write(t, 1, finished(1, orders3, 0, 99)...)
			s.write(t, 1, finished(9, orders3, 900, 999)...)
			stopped(t, s, path)
			s = c.spoil(t, s, path)
			if name == "records were lost unread" {
				s.write(t, 1, finished(1, orders3, 0, 99)...)
			}
			reg := prometheus.NewRegistry()
			f := s.open(t, Options{Snapshot: path, Registerer: reg})
			ready(t, f)
			want := tier.New()
			if err := Walk(t.Context(), s.dial(t), Name, func(e Entry) error {
				want.Apply(Changes(nil, e.Record)...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want.Snapshot().Segments() == 0 {
				t.Fatal("nothing is expected")
			}
			sameView(t, f.Snapshot(), want.Snapshot())
			if n := sampleOf(t, reg, "coldtap_catalog_topic_snapshot_reads_total", c.outcome); n != 1 {
				t.Errorf("%v files are %s", n, c.outcome)
			}
			if n := sampleOf(t, reg, "coldtap_catalog_topic_snapshot_reads_total", "used"); n != 0 {
				t.Errorf("it was used all the same")
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if file, err := loadSnapshot(path); err != nil || file.view.Segments() != want.Snapshot().Segments() {
				t.Errorf("no good file replaced it: %v", err)
			}
		})
	}
}

// TestTopicIsMadeAnewWhileFollowed: what the old one told is no longer answered from, and leaves the caches.
func TestTopicIsMadeAnewWhileFollowed(t *testing.T) {
	s := newHarness(t, 1)
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	s.write(t, 1, finished(2, orders3, 100, 199)...)
	gone := make(chan segment.UUID, 10)
	f := s.open(t, Options{OnDelete: func(seg *tier.Segment) { gone <- seg.ID }})
	ready(t, f)
	if err := s.DeleteTopic(Name); err != nil {
		t.Fatal(err)
	}
	until(t, f, func() bool { return f.Status().Trouble != nil })
	if f.Ready() != nil || f.Snapshot().Segments() != 2 {
		t.Errorf("a topic that is away: %v, %d segments", f.Ready(), f.Snapshot().Segments())
	}
	if err := s.CreateTopic(Name, 1, nil); err != nil {
		t.Fatal(err)
	}
	s.newWriter(t)
	s.write(t, 1, finished(2, orders3, 100, 199)...)
	if id := <-gone; id[15] != 1 || len(gone) > 0 {
		t.Errorf("%v left", id)
	}
	ready(t, f)
	if n := refreshed(t, f).Segments(); n != 1 {
		t.Errorf("%d segments", n)
	}
}

// TestRecordsLostUnreadWhileFollowing: the broker says that the next record is gone, so the rest is read from its
// start.
func TestRecordsLostUnreadWhileFollowing(t *testing.T) {
	s := newHarness(t, 1)
	s.write(t, 1, finished(1, orders3, 0, 99)...)
	f := s.open(t, Options{})
	ready(t, f)
	s.fail(kmsg.Fetch.Int16(), true)
	until(t, f, func() bool { return f.Status().Trouble != nil })
	s.write(t, 1, finished(2, orders3, 100, 199)...)
	s.write(t, 1, finished(3, orders3, 200, 299)...)
	if err := s.DeleteRecords(Name, 0, 4); err != nil {
		t.Fatal(err)
	}
	s.fail(kmsg.Fetch.Int16(), false)
	until(t, f, func() bool { return isReadable(f.Snapshot(), orders3, segment.UUID{0: 7, 15: 3}) })
	ready(t, f)
	if n := f.Snapshot().Segments(); n != 1 {
		t.Errorf("%d segments", n)
	}
}

// TestTopicGetsPartitions: the new ones are followed too, also behind a snapshot file.
func TestTopicGetsPartitions(t *testing.T) {
	s := newHarness(t, 2)
	path := filepath.Join(t.TempDir(), "metadata")
	s.write(t, 2, finished(1, orders3, 0, 99)...)
	f := s.open(t, Options{Snapshot: path})
	ready(t, f)
	grow := func(to int32) {
		t.Helper()
		req := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = Name, to
		req.Topics = append(req.Topics, topic)
		req.TimeoutMillis = 1000
		if resp, err := req.RequestWith(t.Context(), s.writer); err != nil || resp.Topics[0].ErrorCode != 0 {
			t.Fatal(resp, err)
		}
		s.newWriter(t)
	}
	grow(3)
	// Moving a leader makes the follower look where the topic is.
	if err := s.MoveTopicPartition(Name, 0, (s.LeaderFor(Name, 0)+1)%3); err != nil {
		t.Fatal(err)
	}
	until(t, f, func() bool { return f.Status().Partitions == 3 })
	rest := finished(2, orders3, 100, 199)
	for _, r := range rest {
		value, _ := appendRecord(nil, r)
		s.raw(t, 2, value)
	}
	if n := refreshed(t, f).Segments(); n != 2 {
		t.Errorf("%d segments", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	grow(5)
	again := s.open(t, Options{Snapshot: path})
	ready(t, again)
	if st := again.Status(); st.Partitions != 5 || st.Records != 0 || again.Snapshot().Segments() != 2 {
		t.Errorf("%+v, %d segments", st, again.Snapshot().Segments())
	}
}
