package clusterfixture_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
	"coldtap/segment"
	"coldtap/tier"
)

// key is where an object of a segment lies.
func key(p *clusterfixture.Partition, seg *tier.Segment, suffix string) string {
	return fmt.Sprintf("%s-%s/%020d-%s%s", p.Name(), seg.Partition.Topic, seg.BaseOffset, seg.ID, suffix)
}

// TestOnlyReadableSegmentsAreServed: segments whose copy or delete never finished and those of a lost lineage are not
// listed, not opened, and no object of theirs is ever asked for, although their logs lie in the store.
func TestOnlyReadableSegmentsAreServed(t *testing.T) {
	s := newHarness(t, clusterKnown)
	// Why a segment whose log is in the store is not readable, for how many of them. copy-crash and unclean hold
	// dangling copies without objects besides.
	want := map[string]map[string]int{
		"copy-crash-0":   {"COPY_SEGMENT_STARTED": 1},
		"delete-stuck-0": {"DELETE_SEGMENT_STARTED": 1},
		"unclean-0":      {"lost lineage": 4},
	}
	readable := map[string]bool{}
	for _, p := range s.fixture.Partitions() {
		v := s.view(t, p)
		got := map[string]int{}
		for _, seg := range v.Segments(true) {
			log := key(p, seg, ".log")
			_, stored := s.fixture.Objects[log]
			if v.Readable(seg.ID) {
				if !stored {
					t.Errorf("%s is readable and not in the store", log)
				}
				readable[strings.TrimSuffix(log, ".log")] = true
				continue
			}
			if stored && seg.State == tier.CopyFinished {
				got["lost lineage"]++
			} else if stored {
				got[seg.State.String()]++
			}
			_, err := s.OpenFile(t.Context(), p.Topic.Name, p.Topic.ID, p.Number, seg.ID.String(), "log", 0)
			if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Kind != fetch.SegmentUnknown {
				t.Errorf("%s can be opened: %v", log, err)
			}
		}
		if !maps.Equal(got, want[p.Name()]) {
			t.Errorf("%s: not readable are %v, want %v", p.Name(), got, want[p.Name()])
		}
		listed, err := s.Segments(p.Topic.Name, segment.UUID{}, p.Number, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range listed {
			if !v.Readable(l.Segment.ID) {
				t.Errorf("%s lists segment %s", p.Name(), l.Segment.ID)
			}
		}
	}

	for _, p := range s.fixture.Partitions() {
		for isolation := range isolations {
			r := request(p, p.Start, isolation)
			r.MaxBytes = 1 << 30
			s.raw(t, r)
		}
	}
	asked := map[string]bool{}
	for _, c := range s.store.Calls() {
		stem := strings.TrimSuffix(c.Key, path.Ext(c.Key))
		if c.Op != faultstore.Get || !readable[stem] {
			t.Errorf("%s of %s", c.Op, c.Key)
		}
		asked[stem] = true
	}
	if len(asked) < 100 {
		t.Errorf("only %d segments were read", len(asked))
	}
}

// TestARecreatedTopicIsAnotherTopic: by name the second life is read, whatever is left of the first one's metadata and
// objects.
func TestARecreatedTopicIsAnotherTopic(t *testing.T) {
	s := newHarness(t, clusterKnown)
	for name, orphans := range map[string]int{"recreated": 0, "recreated-orphan": 3} {
		topic := s.fixture.Cluster.Topics[name]
		info, err := s.Topic(name, segment.UUID{})
		if err != nil {
			t.Fatal(err)
		}
		if info.ID != topic.ID || topic.Notes.FirstTopicID == topic.ID {
			t.Errorf("%s is %s, want %s", name, info.ID, topic.ID)
		}
		old := 0
		if p, ok := s.tier.Snapshot().Partition(tier.PartitionID{Topic: topic.Notes.FirstTopicID}); ok {
			old = len(p.Segments(true))
		}
		if old != orphans {
			t.Errorf("%s: %d segments of its first life are known, want %d", name, old, orphans)
		}
		for _, seg := range s.view(t, topic.Partitions[0]).Segments(true) {
			if seg.Partition.Topic != topic.ID {
				t.Errorf("%s: segment %s is of topic %s", name, seg.ID, seg.Partition.Topic)
			}
		}
	}
}

// TestReplayingTheTopicAgainChangesNothing: a reader of the metadata topic that starts over in a tier that is full
// meets every event a second time.
func TestReplayingTheTopicAgainChangesNothing(t *testing.T) {
	s := newHarness(t, clusterKnown)
	before := map[string][]segment.UUID{}
	readable := func(p *clusterfixture.Partition) (ids []segment.UUID) {
		for _, seg := range s.view(t, p).Segments(false) {
			ids = append(ids, seg.ID)
		}
		return ids
	}
	for _, p := range s.fixture.Partitions() {
		before[p.Name()] = readable(p)
	}
	for _, r := range s.replay(t) {
		if r.Reason != tier.ReasonIllegalTransition {
			t.Errorf("%+v was rejected: %s", r.Change, r.Reason)
		}
	}
	for _, p := range s.fixture.Partitions() {
		if after := readable(p); !slices.Equal(after, before[p.Name()]) {
			t.Errorf("%s: readable are %v, before %v", p.Name(), after, before[p.Name()])
		}
	}
	p := s.fixture.Cluster.Topics["epochs"].Partitions[0]
	all := s.fixture.Expected(t, p.Name(), "read_committed")
	s.follow(t, request(p, p.Start, "read_committed"), all[:upTo(all, p.LatestTiered+1)])
}
