package clusterfixture_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/layout"
	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
)

// newAivenStand is the read path over a set's bucket.
func newAivenStand(t *testing.T, set *clusterfixture.AivenSet, chunk int64, k knowledge) *harness {
	t.Helper()
	lineage := lineageOfLastSegment(t)
	if k == lineageHidden {
		lineage = nil
	}
	return newStandOver(t, set.Fixture, chunk, lineage, func(c *rangeio.Client) layout.Reader {
		o := aiven.Options{Prefixes: []string{set.Prefix}}
		for id, pem := range set.Keys {
			o.Keys = append(o.Keys, aiven.PrivateKey{ID: id, PEM: pem})
		}
		l, err := aiven.New(c, o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}

// lineageOfLastSegment takes a partition's lineage from the checkpoint that the broker copied with the last segment.
func lineageOfLastSegment(t *testing.T) func(*harness, *clusterfixture.Partition) string {
	return func(s *harness, p *clusterfixture.Partition) string {
		segments := s.view(t, p).Segments(false)
		files, _, err := s.layout.ReadFiles(t.Context(), segments[len(segments)-1])
		if err != nil {
			t.Fatal(err)
		}
		return string(files.LeaderEpochs)
	}
}

// TestSegmentsOfTheAivenPluginAreWhatTheConsumerRead reads each partition from its start to its end, in large pages and
// small ones, and at random, with cache chunks below and above the plugin's. Each transaction's marker is in the tier,
// so nothing is undecided.
func TestSegmentsOfTheAivenPluginAreWhatTheConsumerRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, set := range clusterfixture.LoadAiven(t) {
		for _, tt := range []struct {
			chunk int64
			knowledge
		}{{4 << 10, clusterKnown}, {24 << 10, lineageHidden}, {128 << 10, clusterKnown}, {2 << 20, lineageHidden}} {
			s := newAivenStand(t, set, tt.chunk, tt.knowledge)
			for _, p := range s.fixture.Partitions() {
				for isolation := range isolations {
					t.Run(set.Name+"/"+p.Name()+"/"+isolation, func(t *testing.T) {
						all, end := s.fixture.Expected(t, p.Name(), isolation), p.LatestTiered+1
						if len(all) == 0 || end != p.HighWatermark {
							t.Fatalf("%d records to compare with, up to %d", len(all), p.HighWatermark)
						}
						for _, pageBytes := range []int64{20_000, 1 << 30} {
							r := request(p, p.Start, isolation)
							r.MaxBytes = pageBytes
							if got := s.follow(t, r, all); got.end != fetch.EndTier || got.next != end {
								t.Errorf("pages of %d bytes end at %d for %v, want %d for the tier's end", pageBytes, got.next, got.end, end)
							}
						}
						for range 3 {
							from := p.Start + rnd.Int64N(end-p.Start)
							to := from + rnd.Int64N(end-from+1)
							r := request(p, from, isolation)
							r.EndOffset, r.MaxBytes, r.MaxRecords = to, 1+rnd.Int64N(30_000), rnd.Int64N(500)
							want := all[upTo(all, from):upTo(all, to)]
							if got := s.follow(t, r, want); got.end != fetch.EndRange || got.next != to {
								t.Errorf("[%d, %d) ends at %d for %v", from, to, got.next, got.end)
							}
						}
					})
				}
			}
			s.checkAsked(t, set.Prefix)
		}
	}
}

// checkAsked: nothing was read but objects of readable segments, all of them, and each key was right at the first
// guess.
func (s *harness) checkAsked(t *testing.T, prefix string) {
	t.Helper()
	readable := map[segment.UUID]bool{}
	for _, p := range s.fixture.Partitions() {
		for _, seg := range s.view(t, p).Segments(false) {
			readable[seg.ID] = true
		}
	}
	asked := map[string]bool{}
	for _, c := range s.store.Calls() {
		k, err := aiven.ParseKey(c.Key, prefix)
		if err != nil || !readable[k.SegmentID] {
			t.Errorf("%s of %s: %v", c.Op, c.Key, err)
		}
		if _, ok := s.fixture.Objects[c.Key]; !ok {
			t.Errorf("%s is not there", c.Key)
		}
		asked[c.Key] = true
	}
	if len(asked) != 3*len(readable) {
		t.Errorf("%d objects of %d segments were read", len(asked), len(readable))
	}
}

// TestOrphanOfAKilledBrokerIsNotServed: the copy of which only the beginning is known lies in the bucket, complete,
// beside the copy that counts.
func TestOrphanOfAKilledBrokerIsNotServed(t *testing.T) {
	const orphan = "0uVoQZosT0WuZFxW357xeQ"
	sets := clusterfixture.LoadAiven(t)
	i := slices.IndexFunc(sets, func(s *clusterfixture.AivenSet) bool { return s.Name == "plain-orphan" })
	if i < 0 {
		t.Fatal("the set is not there")
	}
	s := newAivenStand(t, sets[i], 24<<10, clusterKnown)
	v, known, stored := s.view(t, s.fixture.Cluster.Topics["mix-7.x"].Partitions[0]), 0, 0
	for _, seg := range v.Segments(true) {
		if seg.ID.String() != orphan {
			continue
		}
		known++
		if next, ok := v.Find(seg.BaseOffset); v.Readable(seg.ID) || !ok || next.ID == seg.ID || next.BaseOffset != seg.BaseOffset {
			t.Errorf("in the place of %v, %v is served", seg, next)
		}
	}
	for key := range s.fixture.Objects {
		if strings.Contains(key, orphan) {
			stored++
		}
	}
	if known != 1 || stored != 3 {
		t.Errorf("the orphan is known %d times and has %d objects", known, stored)
	}
}
