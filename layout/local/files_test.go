package local

import (
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/faultstore"
	"coldtap/rangeio"
)

// TestMissingFiles (B5): what a file that is not there means depends on what else is not there.
func TestMissingFiles(t *testing.T) {
	for name, c := range map[string]struct {
		without    []string
		txnEmpty   bool
		damaged    []string
		txnDamaged bool
		requests   int
	}{
		"nothing": {nil, false, nil, false, 5},
		"transaction index of an older broker's segment":    {[]string{".txnindex"}, false, nil, false, 5},
		"transaction index that never was":                  {[]string{".txnindex"}, true, nil, false, 4},
		"offset index":                                      {[]string{".index"}, false, []string{"index"}, false, 5},
		"every index, but the transactions are known":       {[]string{".index", ".timeindex"}, false, []string{"index", "timeindex"}, false, 5},
		"transaction index among others":                    {[]string{".txnindex", ".timeindex"}, false, []string{"timeindex"}, true, 5},
		"transaction index that never was, and another one": {[]string{".txnindex", ".snapshot"}, true, []string{"snapshot"}, false, 4},
		"leader epochs":                                     {[]string{".txnindex", ".leader_epoch_checkpoint"}, true, []string{"leader-epoch-checkpoint"}, false, 4},
	} {
		t.Run(name, func(t *testing.T) {
			seg, stem := example(t)
			seg.TxnIndexEmpty = c.txnEmpty
			b := newBed("")
			b.put(seg, stem, c.without...)
			files, cost, err := b.ReadFiles(t.Context(), seg)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(files.IndexDamaged, c.damaged) || files.TxnDamaged != c.txnDamaged || cost.Requests != c.requests {
				t.Errorf("damaged %q, transactions %t, %d requests", files.IndexDamaged, files.TxnDamaged, cost.Requests)
			}
			for suffix, got := range map[string][]byte{".index": files.OffsetIndex, ".timeindex": files.TimeIndex,
				".txnindex": files.TxnIndex, ".snapshot": files.Snapshot, ".leader_epoch_checkpoint": files.LeaderEpochs} {
				want := suffix
				if slices.Contains(c.without, suffix) {
					want = ""
				}
				if string(got) != want || (got == nil) != (want == "") {
					t.Errorf("%s is %q", suffix, got)
				}
			}
		})
	}
}

// TestASegmentThatIsGoneHasNoFiles, which is not the same as a segment without aborted transactions.
func TestASegmentThatIsGoneHasNoFiles(t *testing.T) {
	seg, stem := example(t)
	for _, empty := range []bool{true, false} {
		seg.TxnIndexEmpty = empty
		b := newBed("")
		b.put(seg, stem, suffixes[1:]...) // a delete that got stuck at the log
		if files, _, err := b.ReadFiles(t.Context(), seg); kindOf(err) != rangeio.NotFound {
			t.Errorf("%+v, %v", files, err)
		}
	}
}

// TestADeleteThatOvertakesTheReads: what was deleted before the transaction index shows after it.
func TestADeleteThatOvertakesTheReads(t *testing.T) {
	seg, stem := example(t)
	b := newBed("")
	b.put(seg, stem)
	var deleted bool
	b.store.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(".txnindex"), Fault: faultstore.Fault{Do: func() {
		if !deleted {
			deleted = true
			for _, suffix := range []string{".log", ".index", ".timeindex", ".txnindex"} {
				if err := b.mem.Delete(t.Context(), stem+suffix); err != nil {
					t.Error(err)
				}
			}
		}
	}}})
	files, _, err := b.ReadFiles(t.Context(), seg)
	if err != nil {
		t.Fatal(err)
	}
	if !files.TxnDamaged {
		t.Error("a transaction index that was just deleted counts as one that never was")
	}
}

// TestAFailureIsNoAbsence (B5, B6): a store that refuses or fails leaves nothing to go on with, whichever file it is.
func TestAFailureIsNoAbsence(t *testing.T) {
	for _, kind := range []rangeio.Kind{rangeio.Forbidden, rangeio.Unavailable, rangeio.Throttled, rangeio.NoBucket} {
		for _, suffix := range suffixes[1:] {
			seg, stem := example(t)
			b := newBed("")
			b.put(seg, stem)
			remove := b.store.Inject(faultstore.Rule{Key: faultstore.Suffix(suffix), Fault: faultstore.Fault{Kind: kind}})
			if files, cost, err := b.ReadFiles(t.Context(), seg); kindOf(err) != kind || cost.Requests == 0 {
				t.Errorf("%v of %s: %+v, %v, %+v", kind, suffix, files, err, cost)
			}
			remove()
			if _, _, err := b.ReadFiles(t.Context(), seg); err != nil {
				t.Errorf("after %v of %s: %v", kind, suffix, err)
			}
		}
	}
}

// TestHugeFilesAreLeftOut, unread: an object of that size is no index.
func TestHugeFilesAreLeftOut(t *testing.T) {
	for _, suffix := range suffixes[1:] {
		seg, stem := example(t)
		b := newBed("")
		b.put(seg, stem)
		b.store.Inject(faultstore.Rule{Key: faultstore.Suffix(suffix), Fault: faultstore.Fault{SizeOff: maxFile}})
		files, cost, err := b.ReadFiles(t.Context(), seg)
		if err != nil {
			t.Errorf("%s: %v", suffix, err)
			continue
		}
		if files.TxnDamaged != (suffix == ".txnindex") || len(files.IndexDamaged) == 0 == (suffix != ".txnindex") {
			t.Errorf("%s: transactions %t, damaged %q", suffix, files.TxnDamaged, files.IndexDamaged)
		}
		if want := int64(len(strings.Join(suffixes[1:], "")) - len(suffix)); cost.Bytes != want {
			t.Errorf("%s: %d bytes were read, want %d", suffix, cost.Bytes, want)
		}
	}
}

// TestEmptyFilesExist (F2): an index of no bytes is there, and says nothing.
func TestEmptyFilesExist(t *testing.T) {
	seg, stem := example(t)
	b := newBed("")
	b.put(seg, stem)
	for _, suffix := range []string{".index", ".timeindex", ".txnindex"} {
		b.mem.Set(stem+suffix, nil)
	}
	files, _, err := b.ReadFiles(t.Context(), seg)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"index": files.OffsetIndex, "timeindex": files.TimeIndex, "txnindex": files.TxnIndex} {
		if got == nil || len(got) > 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	if files.TxnDamaged || files.IndexDamaged != nil {
		t.Errorf("%+v", files)
	}
}
