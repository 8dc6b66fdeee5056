package archive

import (
	"strings"
	"testing"

	"coldtap/catalog"
	"coldtap/internal/sample"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout/aiven"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
)

// TestWithheldObjects: what lies in Glacier, or is denied, is left out and reported with what to mend, and everything
// else is served. Once it can be read it is served too, although it looks the same in a listing.
func TestWithheldObjects(t *testing.T) {
	for kind, says := range map[rangeio.Kind]string{rangeio.Archived: "restore it", rangeio.Forbidden: "permission"} {
		b, _ := aivenBucket(t, aiven.Options{})
		all := three(b)
		restore := b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(all[1].stem() + aiven.SuffixManifest), Fault: faultstore.Fault{Kind: kind}})
		a := b.open(t, Options{})
		wantServed(t, a, 1)
		if got := len(view0(t, a).Segments(false)); got != 2 {
			t.Errorf("%v: %d segments are readable", kind, got)
		}
		wantProblems(t, a, map[Problem]int64{Withheld: 1, Gap: 1})
		for _, f := range a.Report().Findings {
			if f.Problem == Withheld && (!strings.Contains(f.Detail, says) || f.Object != all[1].stem()+aiven.SuffixManifest) {
				t.Errorf("%v: %+v", kind, f)
			}
		}
		if err := a.Refresh(t.Context(), part0); err != nil { // lists the partition alone
			t.Error(err)
		}
		wantServed(t, a, 1)
		restore()
		if err := a.Refresh(t.Context(), part0); err != nil {
			t.Error(err)
		}
		wantServed(t, a, 1, 2, 3)
		relist(t, a)
		wantServed(t, a, 1, 2, 3)
		wantProblems(t, a, nil)
	}
}

// TestACheckpointThatIsWithheld costs the lineage that it tells, and nothing else.
func TestACheckpointThatIsWithheld(t *testing.T) {
	b, _ := aivenBucket(t, aiven.Options{})
	all := three(b)
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Exactly(all[2].stem() + aiven.SuffixIndexes), Fault: faultstore.Fault{Kind: rangeio.Archived}})
	a := b.open(t, Options{})
	wantServed(t, a, 1, 2, 3)
	wantProblems(t, a, map[Problem]int64{NoLineage: 1})
}

// TestWithheldStart: what retention has deleted must not come back, so the partition is left out.
func TestWithheldStart(t *testing.T) {
	b, l, view := nativeBucket(t)
	topic, _ := view.TopicByName("plain")
	if err := l.PutStart(t.Context(), &native.Start{ClusterID: sample.ClusterID, Topic: "plain", TopicID: topic.ID}); err != nil {
		t.Fatal(err)
	}
	restore := b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix("/start"), Fault: faultstore.Fault{Kind: rangeio.Archived}})
	a := b.open(t, Options{})
	if n := len(a.Snapshot().Topics()); n != len(view.Topics())-1 || a.Report().Problems[Withheld] != 1 {
		t.Errorf("%d topics, %+v", n, a.Report())
	}
	restore()
	relist(t, a)
	if n := len(a.Snapshot().Topics()); n != len(view.Topics()) {
		t.Errorf("%d topics after it was restored", n)
	}
}

// TestEverythingWithheld is no empty archive: credentials without the permission to read, a bucket that went to Glacier
// as a whole.
func TestEverythingWithheld(t *testing.T) {
	for kind, says := range map[rangeio.Kind]string{rangeio.Archived: "restore it", rangeio.Forbidden: "permission"} {
		b, _ := aivenBucket(t, aiven.Options{})
		three(b)
		restore := b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Kind: kind}})
		a := b.start(t, Options{})
		if err := a.awaitListing(t.Context()); err == nil {
			t.Errorf("%v: ready", kind)
		}
		wantKind(t, a.Ready(), catalog.NotReady, kind.String())
		if err := a.Ready(); !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
		restore()
		relist(t, a)
		wantServed(t, a, 1, 2, 3)
	}
}

// TestWrongPrefixNamesTheKey that has to be mended.
func TestWrongPrefixNamesTheKey(t *testing.T) {
	for _, prefix := range []string{"", "other/"} {
		b, _ := aivenBucket(t, aiven.Options{Prefixes: []string{prefix}})
		m := makeSegment(1, 0, 0, 99).lineage(segment.EpochStart{})
		m.prefix = "tiered/"
		m.put(b)
		a := b.start(t, Options{})
		a.awaitListing(t.Context())
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), "layout.aiven.key_prefix") || !strings.Contains(err.Error(), prefix) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// TestAFlipOnTheWay from the store costs one more read, and is not remembered.
func TestAFlipOnTheWay(t *testing.T) {
	b, _, view := nativeBucket(t)
	b.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(".meta"), Skip: 1, Times: 1, Fault: faultstore.Fault{
		Content: func(off int64, p []byte) {
			if off <= 40 && off+int64(len(p)) > 40 {
				p[40-off] ^= 1
			}
		}}})
	a := b.open(t, Options{Parallel: 1})
	wantProblems(t, a, nil)
	if got := a.Snapshot().Segments(); got != view.Segments() {
		t.Errorf("%d segments, want %d", got, view.Segments())
	}
}
