package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/catalog"
	"coldtap/internal/sample"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/layout/aiven"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// orders0 is what the keys of the tests' partition begin with.
var orders0 = fmt.Sprintf("orders-%v/0/", topicA)

func refreshed(t *testing.T, a *Archive, id tier.PartitionID) {
	t.Helper()
	if err := a.Refresh(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// TestH6RefreshLists: right after a listing that found nothing new, what came and what went since is seen, with one
// listing of the partition's folder and the new manifest's two GETs. Its name is not needed to be in the view any more.
func TestH6RefreshLists(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	elsewhere := makeSegment(9, 0, 0, 9)
	elsewhere.Partition.Topic, elsewhere.Topic = topicB, "payments"
	elsewhere.put(b)
	var mu sync.Mutex
	var deleted []int
	a := b.open(t, Options{OnDelete: func(s *tier.Segment) {
		mu.Lock()
		defer mu.Unlock()
		deleted = append(deleted, int(s.ID[15]))
	}})
	relist(t, a)
	b.faults.Reset()

	all[0].remove(b)
	makeSegment(4, 0, 300, 399).lineage(segment.EpochStart{}).put(b)
	refreshed(t, a, part0)
	wantServed(t, a, 2, 3, 4)
	if p := view0(t, a); p.Bounds().Start != 100 || p.TieredEnd() != 400 {
		t.Errorf("from %d to %d", p.Bounds().Start, p.TieredEnd())
	}
	if whole, part := b.faults.Count(faultstore.List, faultstore.Exactly("")), b.faults.Count(faultstore.List, faultstore.Exactly(orders0)); whole != 0 || part != 1 {
		t.Errorf("%d listings of the bucket, %d of the partition", whole, part)
	}
	if n := b.faults.Count(faultstore.Get, nil); n != 3 { // the manifest, and both for the checkpoint
		t.Errorf("%d GETs", n)
	}
	if !slices.Equal(deleted, []int{1}) {
		t.Errorf("%v left the view", deleted)
	}
	if n := a.Report().Segments; n != 4 {
		t.Errorf("%d segments are reported", n)
	}

	for _, key := range b.Keys() {
		if strings.HasPrefix(key, orders0) {
			b.Delete(t.Context(), key)
		}
	}
	refreshed(t, a, part0)
	if _, ok := a.Snapshot().Partition(part0); ok {
		t.Error("a partition without segments is there")
	}
	relist(t, a)
	three(b)
	refreshed(t, a, part0)
	wantServed(t, a, 1, 2, 3)
	if n := b.faults.Count(faultstore.List, faultstore.Exactly("")); n != 2 { // relist's, and the probe for an empty bucket
		t.Errorf("%d listings of the bucket", n)
	}
	// Of a topic that never was there nobody knows the folder.
	stranger := tier.PartitionID{Topic: segment.UUID{7, 7}}
	refreshed(t, a, stranger)
	if n := b.faults.Count(faultstore.List, faultstore.Exactly("")); n != 3 {
		t.Errorf("%d listings of the bucket", n)
	}
}

// TestH6NewerListingWins, whichever ends first: a long listing of the bucket has passed the partition, or reads its
// manifests, while the partition is listed alone.
func TestH6NewerListingWins(t *testing.T) {
	for name, at := range map[string]func(all [3]*made) (faultstore.Op, string){
		"before the partition's keys": func([3]*made) (faultstore.Op, string) { return faultstore.List, "" },
		"among its keys": func(all [3]*made) (faultstore.Op, string) {
			return faultstore.List, all[1].stem() + aiven.SuffixManifest
		},
		"behind its keys": func([3]*made) (faultstore.Op, string) { return faultstore.List, "z" },
		"reading a manifest": func(all [3]*made) (faultstore.Op, string) {
			return faultstore.Get, all[2].stem() + aiven.SuffixManifest
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := aivenBucket(t, aiven.Options{})
			all := three(b)
			makeSegment(4, 0, 300, 399).lineage(segment.EpochStart{}).put(b)
			b.Set("z", nil)
			a := b.open(t, Options{})
			all[2].manifest["note"] = "another version" // has to be read again
			all[2].put(b)

			reached, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			pause := func() { once.Do(func() { close(reached); <-release }) }
			switch op, key := at(all); {
			case op == faultstore.Get:
				b.faults.Inject(faultstore.Rule{Op: op, Key: faultstore.Exactly(key), Times: 1, Fault: faultstore.Fault{Do: pause}})
			case key == "":
				b.faults.Inject(faultstore.Rule{Op: op, Key: faultstore.Exactly(""), Times: 1, Fault: faultstore.Fault{Do: pause}})
			default:
				b.faults.Inject(faultstore.Rule{Op: op, Key: faultstore.Exactly(""), Times: 1, Fault: faultstore.Fault{Reply: func(o rangeio.Object) rangeio.Object {
					if o.Key == key {
						pause()
					}
					return o
				}}})
			}
			whole := make(chan error, 1)
			go func() { whole <- a.awaitListing(t.Context()) }()
			<-reached
			all[0].remove(b)
			makeSegment(5, 0, 400, 499).lineage(segment.EpochStart{}).put(b)
			refreshed(t, a, part0)
			wantServed(t, a, 2, 3, 4, 5)
			close(release)
			if err := <-whole; err != nil {
				t.Fatal(err)
			}
			wantServed(t, a, 2, 3, 4, 5)
			if n := a.inventory.entries.size; n != 4 {
				t.Errorf("%d manifests are known", n)
			}
			relist(t, a)
			wantServed(t, a, 2, 3, 4, 5)
			wantProblems(t, a, nil)
		})
	}
}

// TestH6BucketListedDuringAListing: what the listing of a partition has is older than what a listing of the bucket took
// over that began after it.
func TestH6BucketListedDuringAListing(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	a := b.open(t, Options{})
	reached, release := make(chan struct{}), make(chan struct{})
	b.faults.Inject(faultstore.Rule{Op: faultstore.List, Key: faultstore.Exactly(orders0), Times: 1, Fault: faultstore.Fault{Reply: func(o rangeio.Object) rangeio.Object {
		if o.Key == all[2].stem()+aiven.SuffixManifest {
			close(reached)
			<-release
		}
		return o
	}}})
	part := make(chan error, 1)
	go func() { part <- a.Refresh(t.Context(), part0) }()
	<-reached
	all[0].remove(b)
	relist(t, a)
	wantServed(t, a, 2, 3)
	close(release)
	if err := <-part; err != nil {
		t.Fatal(err)
	}
	wantServed(t, a, 2, 3)
	if n := b.faults.Count(faultstore.List, faultstore.Exactly(orders0)); n != 2 {
		t.Errorf("%d listings of the partition, want 2", n)
	}
}

// TestListingsOfAPartitionAreRationed: those who come together share one listing, and the next begins a second later.
func TestListingsOfAPartitionAreRationed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := aivenBucket(t, aiven.Options{})
		three(b)
		a := b.start(t, Options{})
		synctest.Wait()
		lists := func() int { synctest.Wait(); return b.faults.Count(faultstore.List, faultstore.Exactly(orders0)) }
		began := time.Now()
		for range 3 {
			var clients sync.WaitGroup
			for range 20 {
				clients.Go(func() { refreshed(t, a, part0) })
			}
			clients.Wait()
		}
		// Of those who come together some may be late for the first, and are answered by the second.
		if n, took := lists(), time.Since(began); n > 4 || took < 2*listPause || took > 3*listPause {
			t.Errorf("%d listings for three crowds, in %v", n, took)
		}
		impatient, cancel := context.WithTimeout(t.Context(), listPause/2)
		defer cancel()
		if err := a.Refresh(impatient, part0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Hour)

		// No partition waits for another's, and at most so many run at a time.
		release := make(chan struct{})
		b.faults.Inject(faultstore.Rule{Op: faultstore.List, Key: faultstore.Prefix("orders"), Fault: faultstore.Fault{Block: release}})
		b.faults.Reset()
		var clients sync.WaitGroup
		for n := range int32(10) {
			clients.Go(func() { refreshed(t, a, tier.PartitionID{Topic: topicA, Partition: n}) })
		}
		synctest.Wait()
		if n := b.faults.Count(faultstore.List, nil); n != maxListings {
			t.Errorf("%d listings at a time", n)
		}
		close(release)
		clients.Wait()

		b.faults.Clear()
		time.Sleep(time.Hour)
		b.faults.Inject(faultstore.Rule{Op: faultstore.List, Times: 1, Fault: faultstore.Fault{Kind: rangeio.Unavailable}})
		wantKind(t, a.Refresh(t.Context(), part0), catalog.Unavailable, "injected")
		refreshed(t, a, part0)
		// Whoever waits when it is closed is told.
		late := make(chan error, 1)
		go func() { late <- a.Refresh(t.Context(), part0) }()
		synctest.Wait()
		a.Close()
		wantKind(t, <-late, catalog.Unavailable, "closed")
		wantKind(t, a.Refresh(t.Context(), part0), catalog.Unavailable, "closed")
	})
}

// An empty folder of a partition means that it is gone, but not when the store has nothing at all.
func TestH6ListingOfAnEmptyStore(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	three(b)
	a := b.open(t, Options{})
	for _, key := range b.Keys() {
		b.Delete(t.Context(), key)
	}
	wantKind(t, a.Refresh(t.Context(), part0), catalog.Unavailable, "holds no segment")
	wantServed(t, a, 1, 2, 3)
}

// A partition that changes whenever it is looked at cannot be certain.
func TestListingOfWhatChangesMeanwhile(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	a := b.open(t, Options{})
	key := all[1].stem() + aiven.SuffixManifest
	spoil := func() { b.Set(key, append(b.Bytes(key), ' ')) }
	spoil()
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(key), Times: listTries, Fault: faultstore.Fault{Do: spoil}})
	wantKind(t, a.Refresh(t.Context(), part0), catalog.NotReady, "changes while it is listed")
	refreshed(t, a, part0)
	wantServed(t, a, 1, 2, 3)
}

// TestListingSeesStartObject: it moves, is damaged, and is overwritten while it is read.
func TestListingSeesStartObject(t *testing.T) {
	b, l, view := nativeBucket(t)
	p, topic := first(t, view)
	key := l.StartKey(topic, p.ID())
	put := func(offset int64) {
		t.Helper()
		err := l.PutStart(t.Context(), &native.Start{ClusterID: sample.ClusterID, Topic: topic, TopicID: p.ID().Topic, Partition: p.ID().Partition, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
	}
	a := b.open(t, Options{})
	wantStart := func(offset int64) {
		t.Helper()
		got, ok := a.Snapshot().Partition(p.ID())
		if !ok || got.Bounds().Start != offset {
			t.Errorf("starts at %+v, want %d", got, offset)
		}
	}
	put(5)
	refreshed(t, a, p.ID())
	wantStart(5)
	good := b.Bytes(key)
	b.Set(key, make([]byte, 100))
	refreshed(t, a, p.ID())
	if _, ok := a.Snapshot().Partition(p.ID()); ok {
		t.Error("it is served in spite of its start object")
	}
	b.Set(key, good)
	refreshed(t, a, p.ID())
	wantStart(5)

	// One answer that is no good costs another GET; when all are, the rest of the bucket is listed all the same.
	put(6)
	bad := faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(key), Times: 1, Fault: faultstore.Fault{Kind: rangeio.Changed}}
	b.faults.Inject(bad)
	relist(t, a)
	wantStart(6)
	put(7)
	bad.Times = startTries
	b.faults.Inject(bad)
	relist(t, a)
	wantStart(6)
	wantProblems(t, a, map[Problem]int64{Changing: 1})
	refreshed(t, a, p.ID())
	wantStart(7)
	bad.Times = 0 // always, however many listings it takes
	b.faults.Inject(bad)
	fresh := b.open(t, Options{})
	if _, ok := fresh.Snapshot().Partition(p.ID()); ok {
		t.Error("it is served although its start is not known")
	}
}

// A segment's id that another partition has, and a cluster that nobody named before, are told as a listing of the
// bucket tells them.
func TestListingOfAPartitionMindsTheRest(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	other := makeSegment(9, 0, 0, 9)
	other.Partition.Partition = 1
	other.put(b)
	a := b.open(t, Options{})
	thief := makeSegment(uint64(all[1].ID[15]), 0, 10, 19)
	thief.Partition.Partition = 1
	thief.put(b)
	refreshed(t, a, other.Partition)
	p, _ := a.Snapshot().Partition(other.Partition)
	if n := len(p.Segments(true)); n != 1 {
		t.Errorf("%d segments", n)
	}
	wantServed(t, a, 1, 2, 3)
	relist(t, a)
	wantServed(t, a, 1, 2, 3)
	wantProblems(t, a, map[Problem]int64{Misplaced: 1})
}

// TestListingsOfPartitionsAndBucketAgree: after whatever happened to a bucket, partition by partition, the view is the
// one that an archive has which is opened now.
func TestListingsOfPartitionsAndBucketAgree(t *testing.T) {
	for seed := range uint64(40) {
		b, _ := aivenBucket(t, aiven.Options{})
		three(b)
		a := b.open(t, Options{})
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range 12 {
			base := int64(100 * rnd.IntN(6))
			epoch := int32(rnd.IntN(3))
			partition := rnd.IntN(2)
			m := makeSegment(uint64(1+rnd.IntN(20)+100*partition), epoch, base, base+99).lineage(segment.EpochStart{Epoch: epoch})
			m.Partition.Partition = int32(partition)
			suffixes := []string{aiven.SuffixLog, aiven.SuffixIndexes, aiven.SuffixManifest}
			switch rnd.IntN(6) {
			case 0:
				m.remove(b)
			case 1:
				if key := m.stem() + suffixes[rnd.IntN(3)]; b.Bytes(key) != nil {
					b.Set(key, b.Bytes(key)[:len(b.Bytes(key))/2])
				}
			default:
				m.put(b)
			}
			if rnd.IntN(6) == 0 {
				relist(t, a)
			}
		}
		for n := range int32(2) {
			if done, err := a.tryListing(t.Context(), tier.PartitionID{Topic: topicA, Partition: n}); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		fresh := b.open(t, Options{})
		if x, y := a.inventory.entries.size, fresh.inventory.entries.size; x != y {
			t.Errorf("%d manifests are known, want %d", x, y)
		}
		sameView(t, a.Snapshot(), fresh.Snapshot())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestIndex(t *testing.T) {
	x := newIndex()
	want := make(map[segment.UUID]*entry)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		at := id(rnd.Uint64N(3000))
		if e := x.get(at); e != want[at] {
			t.Fatalf("%v: %p, want %p", at, e, want[at])
		} else if e != nil && rnd.IntN(3) > 0 {
			x.remove(at)
			delete(want, at)
		} else if e == nil {
			e = &entry{seg: &tier.Segment{ID: at}}
			x.add(e)
			want[at] = e
		}
	}
	n := 0
	for e := range x.all {
		n++
		if want[e.seg.ID] != e {
			t.Fatalf("%v is there", e.seg.ID)
		}
	}
	if n != len(want) || n != x.size {
		t.Errorf("%d entries, %d counted, want %d", n, x.size, len(want))
	}
}

// TestPlainPartitionsNeedNoModel: what isPlain says is what a model of all segments says.
func TestPlainPartitionsNeedNoModel(t *testing.T) {
	plain := 0
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		u := &resolution{id: part0, topic: "orders"}
		lineages := [2][]segment.EpochStart{}
		for i := range lineages {
			at, epoch := int64(rnd.IntN(30)), int32(rnd.IntN(2))
			for range 1 + rnd.IntN(4) {
				lineages[i] = append(lineages[i], segment.EpochStart{Epoch: epoch, StartOffset: at})
				at, epoch = at+int64(rnd.IntN(60)), epoch+1+int32(rnd.IntN(2))
			}
		}
		for n := range 1 + rnd.IntN(5) {
			base := int64(rnd.IntN(200))
			m := makeSegment(uint64(n+1), 0, base, base+int64(rnd.IntN(60)))
			m.Epochs, m.State = nil, tier.CopyFinished
			for _, e := range lineages[rnd.IntN(10)/9] {
				switch {
				case e.StartOffset <= base:
					m.Epochs = []segment.EpochStart{{Epoch: e.Epoch, StartOffset: base}}
				case e.StartOffset <= m.EndOffset:
					m.Epochs = append(m.Epochs, e)
				}
			}
			if m.Epochs != nil && m.Validate() == nil {
				u.entries = append(u.entries, &entry{seg: &m.Segment})
			}
		}
		if len(u.entries) == 0 {
			continue
		}
		u.sort()
		for cut := range lineages[0] {
			c := &layout.Checkpoint{Epochs: slices.Clone(lineages[0][cut:]), Start: -1}
			if rnd.IntN(2) == 0 {
				c.Epochs[0].StartOffset += int64(rnd.IntN(20))
				c.Start = c.Epochs[0].StartOffset
			}
			if !u.isPlain(c) {
				continue
			}
			plain++
			u.lineage = nil
			if holds, start := u.applyCheckpoint(c, u.changes()); !holds || start >= 0 {
				t.Fatalf("seed %d: checkpoint %+v holds the newest %t, and tells the start %d", seed, c, holds, start)
			}
		}
	}
	if plain < 1000 {
		t.Errorf("only %d were plain", plain)
	}
}
