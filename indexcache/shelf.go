package indexcache

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"time"

	"coldtap/tier"

	"github.com/dgraph-io/ristretto/v2"
)

// item is an entry on the shelf.
type item struct {
	key   tier.SegmentKey
	entry *Entry
	cost  int64
	until time.Time // no longer valid from then on; zero = valid for ever
}

func (it *item) valid() bool { return it.until.IsZero() || time.Now().Before(it.until) }

// shelf holds entries: the latest in a window, the ones asked for often in ristretto. It is guarded by the cache's
// mutex, except for settle's waiting.
type shelf struct {
	window      map[tier.SegmentKey]*list.Element // also those that leave, until ristretto has decided on them
	recent      list.List                         // front = latest use; holds *item
	windowBytes int64
	windowMax   int64

	frequent    *ristretto.Cache[uint64, *item]
	frequentMax int64
	seed        maphash.Seed
}

func newShelf(windowMax, frequentMax int64) (*shelf, error) {
	frequent, err := ristretto.NewCache(&ristretto.Config[uint64, *item]{
		// The smallest entries are some KiB. 10 counters an entry are the rule, and cost 3 bytes each.
		NumCounters: min(max(frequentMax>>10, 1<<10), 1<<20),
		MaxCost:     frequentMax,
		BufferItems: 64,
		Metrics:     true,
		// Integer keys have no check for collisions, hence lookup compares the whole key.
		KeyToHash: func(k uint64) (uint64, uint64) { return k, 0 },
		// Items' cost is in bytes and includes what ristretto itself takes.
		IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("index cache of %d bytes: %w", frequentMax, err)
	}
	return &shelf{
		window: make(map[tier.SegmentKey]*list.Element), windowMax: windowMax,
		frequent: frequent, frequentMax: frequentMax, seed: maphash.MakeSeed(),
	}, nil
}

func (s *shelf) hash(k tier.SegmentKey) uint64 { return maphash.Comparable(s.seed, k) }

func (s *shelf) lookup(k tier.SegmentKey) (*Entry, bool) {
	// Asked first in any case, since that is how ristretto learns what is asked for often.
	it, ok := s.frequent.Get(s.hash(k))
	if ok && it.key == k && it.valid() {
		return it.entry, true
	}
	e := s.window[k]
	if e == nil {
		return nil, false
	}
	if it = e.Value.(*item); !it.valid() {
		return nil, false
	}
	s.recent.MoveToFront(e)
	return it.entry, true
}

// add puts it on the shelf and offers what the window then has too much of to ristretto. It returns the items on which
// ristretto has still to decide: settle must follow, outside the mutex. ok is false when it is too large to be kept.
func (s *shelf) add(it *item) (leaving []*item, ok bool) {
	s.removeFromWindow(it.key)
	if it.cost > s.windowMax {
		if it.cost > s.frequentMax {
			return nil, false
		}
		s.offer(it)
		return []*item{it}, true
	}
	s.window[it.key] = s.recent.PushFront(it)
	s.windowBytes += it.cost
	for s.windowBytes > s.windowMax {
		last := s.recent.Remove(s.recent.Back()).(*item)
		s.windowBytes -= last.cost
		if last.valid() {
			s.offer(last)
		}
		leaving = append(leaving, last)
	}
	return leaving, true
}

func (s *shelf) offer(it *item) { s.frequent.Set(s.hash(it.key), it, it.cost) }

// settle waits until ristretto has decided on everything offered before. It takes some microseconds and needs no mutex.
func (s *shelf) settle() { s.frequent.Wait() }

// forget ends what add began, after settle.
func (s *shelf) forget(leaving []*item) {
	for _, it := range leaving {
		if e := s.window[it.key]; e != nil && e.Value.(*item) == it {
			delete(s.window, it.key)
		}
	}
}

func (s *shelf) remove(k tier.SegmentKey) {
	s.removeFromWindow(k)
	s.frequent.Del(s.hash(k))
}

func (s *shelf) removeFromWindow(k tier.SegmentKey) {
	e := s.window[k]
	if e == nil {
		return
	}
	delete(s.window, k)
	// A leaving item is out of the list and of the sum already.
	before := s.recent.Len()
	if it := s.recent.Remove(e).(*item); s.recent.Len() < before {
		s.windowBytes -= it.cost
	}
}

// frequentBytes is the cost of what ristretto holds. It may be called without the mutex.
func (s *shelf) frequentBytes() int64 {
	return int64(s.frequent.Metrics.CostAdded()) - int64(s.frequent.Metrics.CostEvicted())
}
