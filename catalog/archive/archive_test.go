package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/catalog"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

func wantKind(t *testing.T, err error, kind catalog.Kind, says string) {
	t.Helper()
	e, ok := errors.AsType[*catalog.Error](err)
	if !ok || e.Kind != kind || !strings.Contains(e.Error(), says) {
		t.Fatalf("error %v, want one of kind %d that says %q", err, kind, says)
	}
}

func view0(t *testing.T, a *Archive) *tier.Partition {
	t.Helper()
	p, ok := a.Snapshot().Partition(part0)
	if !ok {
		t.Fatal("the partition is not known")
	}
	return p
}

// served gives the ids' last bytes of the segments that a reader goes through.
func served(t *testing.T, a *Archive) (ids []int) {
	t.Helper()
	for _, s := range chain(view0(t, a)) {
		ids = append(ids, int(s.ID[15]))
	}
	return ids
}

func wantServed(t *testing.T, a *Archive, ids ...int) {
	t.Helper()
	if got := served(t, a); !slices.Equal(got, ids) {
		t.Errorf("segments %v are served, want %v", got, ids)
	}
}

func wantProblems(t *testing.T, a *Archive, want map[Problem]int64) {
	t.Helper()
	r := a.Report()
	for _, p := range Problems() {
		if r.Problems[p] != want[p] {
			t.Errorf("%d times %s, want %d: %+v", r.Problems[p], p, want[p], r.Findings)
		}
	}
}

// three puts offsets 0 to 299 into a bucket, in three segments.
func three(b *bucket) (all [3]*made) {
	for i := range all {
		n := int64(i)
		all[i] = makeSegment(uint64(i+1), 0, 100*n, 100*n+99).lineage(segment.EpochStart{}).put(b)
	}
	return all
}

// TestH6ArchiveIsNotReadyUntilItIsRead: nothing may be called unknown before the listing and all manifests are there.
func TestH6ArchiveIsNotReadyUntilItIsRead(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	listed, release, two := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for _, m := range all[:2] {
		b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(m.stem() + aiven.SuffixManifest), Times: 1, Fault: faultstore.Fault{Block: listed}})
	}
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(all[2].stem() + aiven.SuffixManifest), Times: 1, Fault: faultstore.Fault{
		Do: func() { close(listed); <-release }}})
	var once sync.Once
	a := b.start(t, Options{Progress: func(done, total int64) {
		if done == 2 {
			once.Do(func() { close(two) })
		}
	}})
	wantKind(t, a.Ready(), catalog.NotReady, "manifests")
	<-two
	wantKind(t, a.Ready(), catalog.NotReady, "read 2 of 3 manifests")
	wantKind(t, a.Refresh(t.Context(), tier.PartitionID{}), catalog.NotReady, "")
	if n := a.Snapshot().Segments(); n != 0 {
		t.Errorf("%d segments are shown", n)
	}
	close(release)
	waitReady(t, a)
	wantServed(t, a, 1, 2, 3)
	if a.ClusterID() != "" {
		t.Errorf("cluster %q", a.ClusterID())
	}
}

func TestProgressHasCommas(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 3214: "3,214", 12345678: "12,345,678"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

// A store that is away, or an empty listing, is not "there are no topics".
func TestH6StoreThatCannotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := aivenBucket(t, aiven.Options{})
		remove := b.faults.Inject(faultstore.Rule{Op: faultstore.List, Fault: faultstore.Fault{Kind: rangeio.Unavailable}})
		a := b.start(t, Options{})
		synctest.Wait()
		wantKind(t, a.Ready(), catalog.NotReady, "injected")
		remove()
		time.Sleep(minRetry)
		synctest.Wait()
		wantKind(t, a.Ready(), catalog.NotReady, "holds no segment of the layout")
		three(b)
		time.Sleep(maxRetry)
		synctest.Wait()
		if err := a.Ready(); err != nil {
			t.Fatal(err)
		}
		for _, key := range b.Keys() {
			b.Delete(t.Context(), key)
		}
		time.Sleep(time.Hour)
		wantKind(t, a.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable, "holds no segment")
		wantServed(t, a, 1, 2, 3)
		a.Close()
		wantKind(t, a.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable, "closed")
	})
}

// A read of a manifest that fails stops the listing, and the next one reads only what is missing.
func TestListingGoesOnWhereItFailed(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	last := faultstore.Exactly(all[2].stem() + aiven.SuffixManifest)
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: last, Times: 1, Fault: faultstore.Fault{Kind: rangeio.Throttled}})
	a := b.start(t, Options{Parallel: 1})
	if err := a.awaitListing(t.Context()); err != nil {
		wantKind(t, err, catalog.Unavailable, "")
	}
	waitReady(t, a)
	wantServed(t, a, 1, 2, 3)
	if n := b.faults.Count(faultstore.Get, faultstore.Exactly(all[0].stem()+aiven.SuffixManifest)); n != 1 {
		t.Errorf("a manifest was read %d times", n)
	}
	if n := b.faults.Count(faultstore.Get, last); n != 3 { // and once for its checkpoint
		t.Errorf("the manifest that failed was read %d times", n)
	}
}

// TestN7PartOfASegmentsObjects: what is not complete is left out and reported; the rest is served.
func TestN7PartOfASegmentsObjects(t *testing.T) {
	resize := func(suffix string) func(*bucket, *made) {
		return func(b *bucket, m *made) { b.Set(m.stem()+suffix, make([]byte, 77)) }
	}
	remove := func(suffixes ...string) func(*bucket, *made) {
		return func(b *bucket, m *made) {
			for _, s := range suffixes {
				b.Delete(context.Background(), m.stem()+s)
			}
		}
	}
	rewrite := func(change func(map[string]any)) func(*bucket, *made) {
		return func(b *bucket, m *made) {
			change(m.describe())
			m.put(b)
		}
	}
	metadata := func(m map[string]any) map[string]any { return m["remoteLogSegmentMetadata"].(map[string]any) }
	for name, tt := range map[string]struct {
		spoil   func(*bucket, *made)
		problem Problem
	}{
		"no log":                   {remove(aiven.SuffixLog), Incomplete},
		"no indexes":               {remove(aiven.SuffixIndexes), Incomplete},
		"manifest alone":           {remove(aiven.SuffixLog, aiven.SuffixIndexes), Incomplete},
		"log of another size":      {resize(aiven.SuffixLog), Incomplete},
		"indexes of another size":  {resize(aiven.SuffixIndexes), Incomplete},
		"no manifest":              {remove(aiven.SuffixManifest), Orphan},
		"log alone":                {remove(aiven.SuffixManifest, aiven.SuffixIndexes), Orphan},
		"indexes alone":            {remove(aiven.SuffixManifest, aiven.SuffixLog), Orphan},
		"manifest is empty":        {func(b *bucket, m *made) { b.Set(m.stem()+aiven.SuffixManifest, nil) }, Damaged},
		"manifest is no JSON":      {resize(aiven.SuffixManifest), Damaged},
		"manifest of 7 MiB":        {func(b *bucket, m *made) { b.Set(m.stem()+aiven.SuffixManifest, make([]byte, 7<<20)) }, Damaged},
		"negative offsets":         {rewrite(func(m map[string]any) { metadata(m)["startOffset"] = -1 }), Damaged},
		"end before base":          {rewrite(func(m map[string]any) { metadata(m)["endOffset"] = 1 }), Damaged},
		"no epochs":                {rewrite(func(m map[string]any) { metadata(m)["segmentLeaderEpochs"] = map[string]int64{} }), Damaged},
		"version 2":                {rewrite(func(m map[string]any) { m["version"] = "2" }), UnknownVersion},
		"version that is a number": {rewrite(func(m map[string]any) { m["version"] = 1 }), UnknownVersion},
		"of before September 2023": {rewrite(func(m map[string]any) { delete(m, "remoteLogSegmentMetadata") }), Undescribed},
		"of another base offset":   {rewrite(func(m map[string]any) { metadata(m)["startOffset"] = 101 }), Misplaced},
		"of another segment":       {rewrite(func(m map[string]any) { metadata(m)["remoteLogSegmentId"].(map[string]any)["id"] = id(9).String() }), Misplaced},
		"of another topic's":       {func(b *bucket, m *made) { b.spoil(m.stem()+aiven.SuffixManifest, `"orders"`, `"0rders"`) }, Misplaced},
		"id of a segment elsewhere": {func(b *bucket, m *made) {
			m.remove(b)
			m.Partition.Partition, m.ID, m.manifest = 1, id(1), nil
			m.put(b)
		}, Misplaced},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := aivenBucket(t, aiven.Options{})
			all := three(b)
			b.Set("unrelated/notes.txt", []byte("x"))
			tt.spoil(b, all[1])
			a := b.open(t, Options{})
			wantServed(t, a, 1) // and behind the gap 3, but nobody jumps over it
			if got := len(view0(t, a).Segments(false)); got != 2 {
				t.Errorf("%d segments are readable", got)
			}
			wantProblems(t, a, map[Problem]int64{tt.problem: 1, Gap: 1})
			if a.Report().Foreign != 1 {
				t.Errorf("%d foreign objects", a.Report().Foreign)
			}
			reads := b.faults.Count(faultstore.Get, nil)
			relist(t, a)
			wantProblems(t, a, map[Problem]int64{tt.problem: 1, Gap: 1})
			if now := b.faults.Count(faultstore.Get, nil); now != reads {
				t.Errorf("%d GETs for nothing new", now-reads)
			}
			// Somebody puts it right.
			all[1] = makeSegment(2, 0, 100, 199).lineage(segment.EpochStart{}).put(b)
			relist(t, a)
			if name == "id of a segment elsewhere" {
				return // it goes on to be there
			}
			wantServed(t, a, 1, 2, 3)
			wantProblems(t, a, nil)
		})
	}
}

// TestN21GapIsReported and never jumped over.
func TestN21GapIsReported(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	makeSegment(1, 0, 0, 99).lineage(segment.EpochStart{}).put(b)
	makeSegment(2, 0, 101, 199).lineage(segment.EpochStart{}).put(b)
	a := b.open(t, Options{})
	wantServed(t, a, 1)
	wantProblems(t, a, map[Problem]int64{Gap: 1})
	if f := a.Report().Findings[0]; f.Object != "orders-0" || f.Detail != "offsets 100 to 100 are in no segment" {
		t.Errorf("%+v", f)
	}
}

// TestD2OverlappingCopies: a new leader copied a range again that begins inside the segment before.
func TestD2OverlappingCopies(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	lineage := []segment.EpochStart{{Epoch: 5}, {Epoch: 7, StartOffset: 15}, {Epoch: 9, StartOffset: 100}}
	first := makeSegment(1, 5, 0, 50)
	first.Epochs = lineage[:2]
	second := makeSegment(2, 5, 14, 150)
	second.Epochs = []segment.EpochStart{{Epoch: 5, StartOffset: 14}, lineage[1], lineage[2]}
	first.lineage(lineage[:2]...).put(b)
	second.lineage(lineage...).put(b)
	a := b.open(t, Options{})
	wantServed(t, a, 1, 2)
	wantProblems(t, a, nil)
}

// TestNewestLineageWins: an unclean election threw away what the deposed leader had copied, although that reaches
// further.
func TestNewestLineageWins(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	makeSegment(1, 0, 0, 99).lineage(segment.EpochStart{}).put(b)
	makeSegment(2, 0, 100, 900).lineage(segment.EpochStart{}).put(b) // the loser's
	winner := makeSegment(3, 1, 100, 199).lineage(segment.EpochStart{}, segment.EpochStart{Epoch: 1, StartOffset: 100}).put(b)
	a := b.open(t, Options{})
	wantServed(t, a, 1, 3)
	wantProblems(t, a, map[Problem]int64{Divergent: 1})
	if end := view0(t, a).TieredEnd(); end != 200 {
		t.Errorf("the tier ends at %d", end)
	}
	// Without it the other lineage is all there is.
	winner.remove(b)
	relist(t, a)
	wantServed(t, a, 1, 2)
	wantProblems(t, a, nil)
}

// TestDuplicatesAreResolvedTheSameWay whatever manifest happens to be read first: the copy that began last is served.
func TestDuplicatesAreResolvedTheSameWay(t *testing.T) {
	for seed := range uint64(20) {
		b, _ := aivenBucket(t, aiven.Options{})
		all := three(b)
		for n, at := range map[uint64]int64{11: 5, 12: 9, 13: 9, 14: 7} {
			m := makeSegment(n, 0, 100, 199)
			m.EventTime = 1_700_000_000_000 + at
			m.lineage(segment.EpochStart{}).put(b)
		}
		_ = all
		rnd := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Do: func() {
			mu.Lock()
			n := rnd.IntN(3)
			mu.Unlock()
			for range n * 1000 {
				_ = n
			}
		}}})
		a := b.open(t, Options{Parallel: 1 + int(seed)%8})
		// Of 12 and 13 the one whose object is newer, and on a store without that, the greater id.
		if got := served(t, a); len(got) != 3 || got[1] != 12 && got[1] != 13 {
			t.Fatalf("%v are served", got)
		}
		wantProblems(t, a, map[Problem]int64{Duplicate: 4})
	}
	older, newer := makeSegment(1, 0, 0, 99), makeSegment(2, 0, 0, 99)
	newer.EventTime = older.EventTime
	for _, tt := range []struct {
		a, b int64 // modification times
		want int
	}{{1, 2, -1}, {2, 1, 1}, {1, 1, -1}} {
		if got := byAge(&entry{seg: &older.Segment, modTime: tt.a}, &entry{seg: &newer.Segment, modTime: tt.b}); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// TestH5LogStartInsideASegment: DeleteRecords shows in the checkpoint of what is copied after it.
func TestH5LogStartInsideASegment(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	first := makeSegment(1, 0, 0, 99).lineage(segment.EpochStart{}).put(b)
	second := makeSegment(2, 0, 100, 199).lineage(segment.EpochStart{}).put(b)
	a := b.open(t, Options{})
	if start := view0(t, a).Bounds().Start; start != 0 {
		t.Errorf("starts at %d", start)
	}
	third := makeSegment(3, 0, 200, 299).lineage(segment.EpochStart{StartOffset: 115}).put(b)
	relist(t, a)
	p := view0(t, a)
	if start := p.Bounds().Start; start != 115 {
		t.Errorf("starts at %d, want 115", start)
	}
	if _, ok := p.Find(114); ok {
		t.Error("a deleted record is found")
	}
	if s, ok := p.Find(115); !ok || s.ID != id(2) {
		t.Errorf("%v holds the first record", s)
	}
	// Retention has gone on since.
	first.remove(b)
	second.remove(b)
	relist(t, a)
	if start := view0(t, a).Bounds().Start; start != 200 {
		t.Errorf("starts at %d, want 200", start)
	}
	// A start beyond the end is no start.
	third.lineage(segment.EpochStart{StartOffset: 900}).describe()
	third.put(b)
	relist(t, a)
	wantServed(t, a, 3)
	wantProblems(t, a, map[Problem]int64{NoLineage: 1})
}

// TestD6CheckpointThatCannotBeBelieved: the segments' own epochs tell the lineage then.
func TestD6CheckpointThatCannotBeBelieved(t *testing.T) {
	for name, checkpoint := range map[string]string{
		"cut off":            "0\n3\n0 0\n",
		"empty":              "0\n0\n",
		"descending offsets": "0\n2\n0 100\n1 50\n",
		"of another log":     "0\n2\n0 0\n1 150\n",
		"other last epoch":   "0\n2\n0 0\n4 100\n",
	} {
		b, _ := aivenBucket(t, aiven.Options{})
		makeSegment(1, 0, 0, 99).lineage(segment.EpochStart{}).put(b)
		m := makeSegment(2, 1, 100, 199)
		m.checkpoint = checkpoint
		m.put(b)
		a := b.open(t, Options{})
		if got := served(t, a); !slices.Equal(got, []int{1, 2}) {
			t.Errorf("%s: %v are served", name, got)
		}
		wantProblems(t, a, map[Problem]int64{NoLineage: 1})
		if got := view0(t, a).Lineage(); !slices.Equal(got, []segment.EpochStart{{}, {Epoch: 1, StartOffset: 100}}) {
			t.Errorf("%s: lineage %v", name, got)
		}
	}
}

// TestRecreatedTopic: of two topics with one name the one with the newest copy has it.
func TestRecreatedTopic(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	old := makeSegment(5, 0, 0, 99).put(b)
	again := makeSegment(9, 0, 0, 49)
	again.Partition.Topic = topicB
	again.put(b)
	a := b.open(t, Options{})
	if got, ok := a.Snapshot().TopicByName("orders"); !ok || got.ID != topicB {
		t.Errorf("%v", got)
	}
	if got, ok := a.Snapshot().TopicByID(old.Partition.Topic); !ok || got.Name != "orders" {
		t.Errorf("%v", got)
	}
	// One id with two names: nobody can rename a topic, so the older name's segments are not its.
	other := makeSegment(7, 0, 100, 199)
	other.Topic = "payments"
	other.put(b)
	relist(t, a)
	if got, ok := a.Snapshot().TopicByID(topicA); !ok || got.Name != "payments" {
		t.Errorf("%v", got)
	}
	wantServed(t, a, 7)
	wantProblems(t, a, map[Problem]int64{Misplaced: 1})
}

// Objects that vanish leave the view, and whoever keeps bytes of them is told; a manifest that was rewritten is read
// again.
func TestObjectsThatVanish(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	var mu sync.Mutex
	var deleted []int
	a := b.open(t, Options{OnDelete: func(s *tier.Segment) {
		mu.Lock()
		defer mu.Unlock()
		deleted = append(deleted, int(s.ID[15]))
	}})
	wantDeleted := func(ids ...int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(deleted)
		if !slices.Equal(deleted, ids) {
			t.Errorf("%v left the view, want %v", deleted, ids)
		}
		deleted = nil
	}
	all[0].remove(b)
	relist(t, a)
	wantServed(t, a, 2, 3)
	wantDeleted(1)
	if start := view0(t, a).Bounds().Start; start != 100 {
		t.Errorf("starts at %d", start)
	}

	all[1].Size, all[1].manifest = 222, nil
	all[1].put(b)
	relist(t, a)
	wantServed(t, a, 2, 3)
	wantDeleted(2)
	if s, _ := view0(t, a).Find(100); s.Size != 222 {
		t.Errorf("%d bytes", s.Size)
	}
	// Written anew, it may be of other bytes of the same sizes.
	b.Set(all[1].stem()+aiven.SuffixManifest, b.Bytes(all[1].stem()+aiven.SuffixManifest))
	relist(t, a)
	wantServed(t, a, 2, 3)
	wantDeleted(2)

	// Deleted between the listing and the read.
	late := makeSegment(4, 0, 300, 399).lineage(segment.EpochStart{}).put(b)
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Prefix(late.stem()), Times: 1, Fault: faultstore.Fault{Do: func() { late.remove(b) }}})
	relist(t, a)
	wantServed(t, a, 2, 3)
	// Overwritten between the listing and the read: what is known of it stays.
	longer := append(b.Bytes(all[2].stem()+aiven.SuffixManifest), "  "...)
	b.Set(all[2].stem()+aiven.SuffixManifest, longer)
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(all[2].stem() + aiven.SuffixManifest), Times: 1, Fault: faultstore.Fault{
		Do: func() { b.Set(all[2].stem()+aiven.SuffixManifest, append(longer, ' ')) }}})
	relist(t, a)
	wantServed(t, a, 2, 3)
	wantProblems(t, a, map[Problem]int64{Changing: 1})
	wantDeleted()
	relist(t, a)
	wantProblems(t, a, nil)
	wantDeleted(3)

	all[1].remove(b)
	all[2].remove(b)
	other := makeSegment(8, 0, 0, 9)
	other.Partition.Partition = 7
	other.put(b)
	relist(t, a)
	wantDeleted(2, 3)
	if _, ok := a.Snapshot().Partition(part0); ok {
		t.Error("a partition without segments is there")
	}
}

// TestListingOfTheBucketIsShared by those who came before it began; whoever comes during it hears of the next, since
// this one may have passed already what he asks about.
func TestListingOfTheBucketIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := aivenBucket(t, aiven.Options{})
		three(b)
		a := b.start(t, Options{})
		lists := func() int { synctest.Wait(); return b.faults.Count(faultstore.List, nil) }
		if n := lists(); n != 1 {
			t.Fatalf("%d listings at the start", n)
		}
		refresh := func() {
			t.Helper()
			if err := a.Refresh(t.Context(), tier.PartitionID{}); err != nil {
				t.Error(err)
			}
		}
		// Of a listing of 50 seconds that finds nothing the end comes after the key of what is put meanwhile.
		b.faults.Inject(faultstore.Rule{Op: faultstore.List, Times: 1, Fault: faultstore.Fault{Reply: func(o rangeio.Object) rangeio.Object {
			time.Sleep(5 * time.Second)
			return o
		}}})
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(refresh)
		}
		time.Sleep(12 * time.Second)
		makeSegment(4, 0, 300, 399).lineage(segment.EpochStart{}).put(b)
		for range 20 {
			clients.Go(refresh)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Refresh(impatient, tier.PartitionID{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		clients.Wait()
		if n := lists(); n != 3 {
			t.Errorf("%d listings, want 3", n)
		}
		wantServed(t, a, 1, 2, 3, 4)
		// A store that is away is not asked for each client.
		b.faults.Inject(faultstore.Rule{Op: faultstore.List, Times: 1, Fault: faultstore.Fault{Kind: rangeio.Unavailable}})
		for range 3 {
			wantKind(t, a.Refresh(t.Context(), tier.PartitionID{}), catalog.Unavailable, "injected")
		}
		if n := lists(); n != 4 {
			t.Errorf("%d listings, want 4", n)
		}
		time.Sleep(2 * failedQuiet)
		refresh()
		a.Close()
	})
}

func TestBucketIsListedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := aivenBucket(t, aiven.Options{})
		three(b)
		a := b.start(t, Options{Refresh: time.Minute})
		synctest.Wait()
		makeSegment(4, 0, 300, 399).lineage(segment.EpochStart{}).put(b)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantServed(t, a, 1, 2, 3, 4)
		a.Close()
	})
}

// TestListingIsBounded: at most so many reads at a time, and whatever a stranger puts into the bucket is counted only.
func TestListingIsBounded(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	var mu sync.Mutex
	now, most := 0, 0
	enter := make(chan struct{})
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Do: func() {
		mu.Lock()
		now++
		most = max(most, now)
		if now == 3 {
			select {
			case <-enter:
			default:
				close(enter)
			}
		}
		mu.Unlock()
		<-enter // until three are in
		mu.Lock()
		now--
		mu.Unlock()
	}}})
	for i := range 40 {
		n := int64(i)
		makeSegment(uint64(i+1), 0, 100*n, 100*n+99).lineage(segment.EpochStart{}).put(b)
	}
	for i := range 2000 {
		b.Set(fmt.Sprintf("orders-%v/0/%020d-%v.log", topicA, i, id(uint64(1000+i))), nil)
		b.Set(fmt.Sprintf("junk/%d", i), nil)
	}
	// The checkpoint is read by one reader alone.
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(aiven.SuffixIndexes)})
	a := b.open(t, Options{Parallel: 3})
	r := a.Report()
	if most != 3 || r.Problems[Orphan] != 2000 || r.Foreign != 2000 || len(r.Findings) != maxExamples || r.Segments != 40 {
		t.Errorf("%d reads at a time, report %+v", most, r)
	}
	if n := a.inventory.entries.size; n != 40 {
		t.Errorf("%d entries", n)
	}
}

// TestRestartInTheMiddle: what was read when the process ended need not be read again.
func TestRestartInTheMiddle(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	o := Options{Snapshot: filepath.Join(t.TempDir(), "archive.snapshot"), Identity: "x"}
	two := make(chan struct{})
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(all[2].stem() + aiven.SuffixManifest), Times: 1, Fault: faultstore.Fault{Block: make(chan struct{})}})
	first := o
	first.Progress = func(done, total int64) {
		if done == 2 {
			close(two)
		}
	}
	a := b.start(t, first)
	<-two
	a.Close()
	b.faults.Clear()
	b.faults.Reset()
	a = b.open(t, o)
	wantServed(t, a, 1, 2, 3)
	if n := b.faults.Count(faultstore.Get, faultstore.Prefix(all[0].stem())) + b.faults.Count(faultstore.Get, faultstore.Prefix(all[1].stem())); n != 0 {
		t.Errorf("%d GETs for what was read", n)
	}
}

func TestConcurrentReaders(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	three(b)
	a := b.open(t, Options{Registerer: prometheus.NewRegistry(), OnDelete: func(*tier.Segment) {}})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 20 {
				m := makeSegment(uint64(100+10*i), 0, 300, 399).lineage(segment.EpochStart{})
				if n%2 == 0 {
					m.put(b)
				} else {
					m.remove(b)
				}
				if err := a.awaitListing(t.Context()); err != nil {
					t.Error(err)
				}
				// Whatever comes and goes above it, the beginning is there.
				p := view0(t, a)
				if s, ok := p.Find(150); !ok || s.ID != id(2) || p.Bounds().Start != 0 || a.Ready() != nil || a.Report().Segments < 3 {
					t.Errorf("%v holds 150", s)
				}
			}
		})
	}
	all.Go(func() {
		for range 60 {
			err := a.listPartition(t.Context(), part0)
			if e, ok := errors.AsType[*catalog.Error](err); err != nil && (!ok || e.Kind != catalog.NotReady) {
				t.Error(err)
			}
			if s, ok := view0(t, a).Find(150); !ok || s.ID != id(2) {
				t.Errorf("%v holds 150", s)
			}
		}
	})
	all.Wait()
}

func TestUselessOptions(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	for _, o := range []Options{{}, {Store: b.store}, {Layout: b.layout}, {Store: b.store, Layout: b.layout, Parallel: -1}, {Store: b.store, Layout: b.layout, Refresh: -1}} {
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	r := prometheus.NewRegistry()
	three(b)
	b.open(t, Options{Registerer: r})
	if _, err := Open(t.Context(), Options{Store: b.store, Layout: b.layout, Registerer: r}); err == nil {
		t.Error("metrics were registered twice")
	}
	// What the readers may do at a time is configured for them, and more than a listing needs.
	if a := b.open(t, Options{Parallel: 5000}); a.opt.Parallel != maxParallel {
		t.Errorf("%d manifests are read at a time", a.opt.Parallel)
	}
	found, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range found {
		fmt.Fprintln(&text, f.GetName(), f.GetMetric())
	}
	if !strings.Contains(text.String(), "coldtap_catalog_segments [gauge:{value:3}]") {
		t.Errorf("%s", &text)
	}
}
