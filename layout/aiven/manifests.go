package aiven

import (
	"container/list"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"
)

const (
	// entryCost is what a manifest takes besides its list of chunks: structs, cipher, keys of the objects.
	entryCost = 4 << 10
	// maxManifestLoads bounds the memory of hostile manifests that are being read: 6 MiB of text, as much unpacked, 8 MiB
	// of index, 16 times. Honest ones have a few KiB.
	maxManifestLoads = 16
)

// manifestEntry is a manifest with what reading its segment has taught.
type manifestEntry struct {
	*Manifest
	aead cipher.AEAD // nil when not encrypted

	mu      sync.Mutex
	stem    string        // of the key under which the log was found, or else the manifest
	version string        // ETag of the log that was read first
	owed    readcost.Cost // of the load, until a read has it in its bill
}

func (m *manifestEntry) cost() int64 { return entryCost + 8*int64(len(m.chunks.starts)) }

func (m *manifestEntry) lastStem() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stem
}

func (m *manifestEntry) learnStem(stem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stem = stem
}

func (m *manifestEntry) knownVersion() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// learnVersion records the version that a read of the log got; false when another one is known.
func (m *manifestEntry) learnVersion(etag string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == "" {
		m.version = etag
	}
	return etag == "" || m.version == etag
}

func (m *manifestEntry) bill() readcost.Cost {
	m.mu.Lock()
	defer m.mu.Unlock()
	owed := m.owed
	m.owed = readcost.Cost{}
	return owed
}

// manifestCache keeps the manifests of the segments that were read last, within a bound of bytes, and loads each once
// whoever asks. Errors are not kept, so a manifest that was rewritten with another key is seen by the next read.
type manifestCache struct {
	limit int64
	load  func(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error)
	turns chan struct{}

	mu      sync.Mutex
	used    int64
	entries map[tier.SegmentKey]*list.Element
	order   list.List // of cachedManifest, the latest used in front
	loading map[tier.SegmentKey]*manifestLoad
}

type cachedManifest struct {
	key   tier.SegmentKey
	entry *manifestEntry
}

type manifestLoad struct {
	done chan struct{} // closed once the rest stands
	m    *manifestEntry
	err  error
}

func newManifestCache(limit int64, load func(context.Context, *tier.Segment) (*manifestEntry, readcost.Cost, error)) *manifestCache {
	return &manifestCache{
		limit: limit, load: load, turns: make(chan struct{}, maxManifestLoads),
		entries: make(map[tier.SegmentKey]*list.Element), loading: make(map[tier.SegmentKey]*manifestLoad),
	}
}

// get gives a segment's manifest. The cost is that of a load that failed under this caller; that of one that went well
// stands in the entry.
func (c *manifestCache) get(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error) {
	key := seg.Key()
	for {
		c.mu.Lock()
		if e := c.entries[key]; e != nil {
			c.order.MoveToFront(e)
			c.mu.Unlock()
			return e.Value.(cachedManifest).entry, readcost.Cost{}, nil
		}
		l := c.loading[key]
		if l == nil {
			l = &manifestLoad{done: make(chan struct{})}
			c.loading[key] = l
			c.mu.Unlock()
			cost := c.run(ctx, seg, key, l)
			return l.m, cost, l.err
		}
		c.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, readcost.Cost{}, ctx.Err()
		}
		// A load that ended with its caller's patience says nothing about the manifest.
		if !isCanceled(l.err) {
			return l.m, readcost.Cost{}, l.err
		}
	}
}

// peek gives a segment's manifest if it is at hand, else nil.
func (c *manifestCache) peek(key tier.SegmentKey) *manifestEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e.Value.(cachedManifest).entry
	}
	return nil
}

// run carries a load out and ends it, even when it panics.
func (c *manifestCache) run(ctx context.Context, seg *tier.Segment, key tier.SegmentKey, l *manifestLoad) (cost readcost.Cost) {
	l.err = errors.New("reading the manifest ended early")
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		// A load that was forgotten meanwhile serves those who wait, and nobody else.
		if c.loading[key] == l {
			delete(c.loading, key)
			if l.err == nil {
				c.keepLocked(key, l.m)
			}
		}
		close(l.done)
	}()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		l.err = ctx.Err()
		return cost
	}
	l.m, cost, l.err = c.load(ctx, seg)
	if l.err != nil {
		l.m = nil
		return cost
	}
	l.m.owed = cost
	return readcost.Cost{}
}

func (c *manifestCache) keepLocked(key tier.SegmentKey, m *manifestEntry) {
	if m.cost() > c.limit {
		return
	}
	c.entries[key] = c.order.PushFront(cachedManifest{key, m})
	c.used += m.cost()
	for c.used > c.limit {
		c.removeLocked(c.order.Back())
	}
}

func (c *manifestCache) removeLocked(e *list.Element) {
	old := c.order.Remove(e).(cachedManifest)
	delete(c.entries, old.key)
	c.used -= old.entry.cost()
}

// forget makes the next read load the manifest anew.
func (c *manifestCache) forget(key tier.SegmentKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		c.removeLocked(e)
	}
	delete(c.loading, key)
}

// loadManifest reads, checks and unlocks a segment's manifest, wherever it is.
func (l *Layout) loadManifest(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error) {
	l.metrics.manifests.Inc()
	var (
		raw  []byte
		cost readcost.Cost
		stem string
	)
	places := stems(seg, "", l.prefixesOf(seg))
	err := eachPlace(places, func(at string) error {
		b, _, c, err := l.store.ReadObject(ctx, at+SuffixManifest, MaxManifest)
		cost.Add(c)
		raw, stem = b, at
		return err
	})
	if e, ok := errors.AsType[*rangeio.Error](err); ok && e.Kind == rangeio.NotFound {
		err = &rangeio.Error{Kind: e.Kind, Op: e.Op, Key: e.Key,
			Err: fmt.Errorf("no manifest there or at %d other places (a segment in Iceberg format has none)", len(places)-1)}
	}
	if err != nil {
		return nil, cost, err
	}
	m, err := ParseManifest(raw)
	if err == nil {
		err = m.describes(seg)
	}
	e := &manifestEntry{Manifest: m, stem: stem}
	if err == nil && m.Encrypted {
		e.aead, err = l.keys.open(&m.seal)
	}
	if err != nil {
		return nil, cost, &layout.Error{Object: stem + SuffixManifest, Err: err}
	}
	chunk := m.ChunkSize
	if m.plain() {
		chunk = 0
	}
	l.geometries.learn(seg.Key(), chunk, float64(m.StoredSize)/float64(max(m.LogSize, 1)))
	l.learnPrefix(seg, stem)
	return e, cost, nil
}

// eachPlace tries the places where an object may be until one has it. When none has, the error is that of the
// likeliest.
func eachPlace(places []string, read func(stem string) error) error {
	var first error
	for _, stem := range places {
		err := read(stem)
		if !rangeio.IsKind(err, rangeio.NotFound) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func isCanceled(err error) bool {
	return rangeio.IsKind(err, rangeio.Canceled) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
