package indexcache

import (
	"container/list"
	"fmt"
	"hash/maphash"
	"time"

	"coldtap/tier"

	"github.com/dgraph-io/ristretto/v2"
)

// item is a cached entry.
type item struct {
	key   tier.SegmentKey
	entry *Entry
	cost  int64
	until time.Time // it is not valid from then on; zero: it stays valid
}

func (it *item) valid() bool { return it.until.IsZero() || time.Now().Before(it.until) }

// policy keeps entries and decides which ones stay: the latest in a window, frequently used ones in ristretto. It is
// guarded by the cache's mutex, except for waitDecided and frequentBytes.
type policy struct {
	window      map[tier.SegmentKey]*list.Element
	recent      list.List // of *item in the window, the latest used in front
	windowBytes int64
	windowMax   int64

	// offered are items that were handed to ristretto, which keeps or refuses them some time later, and shows none before.
	offered     map[tier.SegmentKey]*item
	frequent    *ristretto.Cache[uint64, *item]
	frequentMax int64
	seed        maphash.Seed
}

func newPolicy(windowMax, frequentMax int64) (*policy, error) {
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
	return &policy{
		window: make(map[tier.SegmentKey]*list.Element), windowMax: windowMax,
		offered:  make(map[tier.SegmentKey]*item),
		frequent: frequent, frequentMax: frequentMax, seed: maphash.MakeSeed(),
	}, nil
}

func (p *policy) hash(k tier.SegmentKey) uint64 { return maphash.Comparable(p.seed, k) }

func (p *policy) lookup(k tier.SegmentKey) (*Entry, bool) {
	// Ristretto is asked in any case, because it counts how often each key is asked for.
	if it, ok := p.frequent.Get(p.hash(k)); ok && it.key == k && it.valid() {
		return it.entry, true
	}
	if e := p.window[k]; e != nil && e.Value.(*item).valid() {
		p.recent.MoveToFront(e)
		return e.Value.(*item).entry, true
	}
	if it := p.offered[k]; it != nil && it.valid() {
		return it.entry, true
	}
	return nil, false
}

// add keeps an item, and offers to ristretto what does not fit into the window any more. It returns what was offered,
// for which waitDecided and then decided must be called. ok is false when the item is too large to be kept.
func (p *policy) add(it *item) (offered []*item, ok bool) {
	p.remove(it.key)
	if it.cost > p.windowMax {
		if it.cost > p.frequentMax {
			return nil, false
		}
		p.offer(it)
		return []*item{it}, true
	}
	p.window[it.key] = p.recent.PushFront(it)
	p.windowBytes += it.cost
	for p.windowBytes > p.windowMax {
		last := p.recent.Back().Value.(*item)
		p.removeFromWindow(last.key)
		if last.valid() {
			p.offer(last)
			offered = append(offered, last)
		}
	}
	return offered, true
}

func (p *policy) offer(it *item) {
	p.offered[it.key] = it
	p.frequent.Set(p.hash(it.key), it, it.cost)
}

// waitDecided waits until ristretto has decided on all that was offered before. It takes some microseconds; the mutex
// should not be held.
func (p *policy) waitDecided() { p.frequent.Wait() }

// decided ends what add began.
func (p *policy) decided(offered []*item) {
	for _, it := range offered {
		if p.offered[it.key] == it {
			delete(p.offered, it.key)
		}
	}
}

// drop forgets a segment.
func (p *policy) drop(k tier.SegmentKey) {
	p.remove(k)
	p.frequent.Del(p.hash(k))
}

// remove forgets what is kept of a segment outside of ristretto.
func (p *policy) remove(k tier.SegmentKey) {
	p.removeFromWindow(k)
	delete(p.offered, k)
}

func (p *policy) removeFromWindow(k tier.SegmentKey) {
	if e := p.window[k]; e != nil {
		delete(p.window, k)
		p.windowBytes -= p.recent.Remove(e).(*item).cost
	}
}

// frequentBytes is the cost of what ristretto holds. It may be called without the mutex.
func (p *policy) frequentBytes() int64 {
	return int64(p.frequent.Metrics.CostAdded()) - int64(p.frequent.Metrics.CostEvicted())
}
