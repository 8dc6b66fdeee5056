package indexcache

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/segment"
)

// J3: a damaged file of a segment is fetched again, whichever it is, and the sound ones beside it keep nothing back.
func TestJ3OneDamagedFileIsFetchedAgain(t *testing.T) {
	good := func() *segment.Files {
		return &segment.Files{OffsetIndex: offsetIndex(50, 40_000), TimeIndex: timeIndex(1_000, 50), Decided: true}
	}
	for name, damage := range map[string]func(*segment.Files){
		"offset index": func(f *segment.Files) { f.OffsetIndex = []byte("random bytes!") },
		"time index":   func(f *segment.Files) { f.TimeIndex = []byte("random bytes!") },
		"both":         func(f *segment.Files) { f.OffsetIndex, f.TimeIndex = []byte("random bytes!"), []byte("random bytes!") },
	} {
		store := &fakeStore{give: func(n int) (*segment.Files, error) {
			f := good()
			if n == 1 {
				damage(f)
			}
			return f, nil
		}}
		c := newCache(t, Config{}, store.load)
		for range 3 {
			e, _ := mustGet(t, c, testSegment(1, 0))
			_, position := e.Offsets.Lookup(60)
			if _, offset := e.Times.Lookup(2_000); position != 40_000 || offset != 50 || len(e.damaged) > 0 {
				t.Errorf("%s: position %d, offset by time %d, damaged %v", name, position, offset, e.damaged)
			}
		}
		if store.count() != 2 {
			t.Errorf("%s: %d loads", name, store.count())
		}
	}
}

// J18: a segment whose first loads are damage or failure, with twenty readers waiting and its entry dropped all the
// while, is there for everybody once the store is well.
func TestJ18FailedOpenIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{give: func(n int) (*segment.Files, error) {
			time.Sleep(time.Second) // until all have joined
			switch n {
			case 1, 3:
				return &segment.Files{OffsetIndex: []byte("random bytes!"), TxnIndex: make([]byte, 33)}, nil
			case 2, 4:
				return nil, errors.New("store is broken")
			}
			return soundFiles(0), nil
		}}
		c := newCache(t, Config{}, store.load)
		seg := testSegment(1, 0)
		for range 3 {
			var readers sync.WaitGroup
			for range 20 {
				readers.Go(func() {
					e, _, err := c.Get(t.Context(), seg)
					if err == nil && (e.Offsets.Len() > 0) != (e.TxnErr == nil) {
						t.Errorf("half of an entry: %d offsets, %v", e.Offsets.Len(), e.TxnErr)
					}
				})
			}
			readers.Wait()
			c.Drop(seg)
		}
		if e, _ := mustGet(t, c, seg); e.Offsets.Len() != 1 || e.TxnErr != nil {
			t.Errorf("after the store is well: %d entries, %v", e.Offsets.Len(), e.TxnErr)
		}
	})
}
