package aiven

import (
	"container/list"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"sync"

	"coldtap/internal/flight"
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
	stem    string // of the key under which the log was found, or else the manifest
	version string // ETag of the log that was read first
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

// manifestCache keeps the manifests of the segments that were read last, within a bound of bytes, and loads each once
// at a time. Errors are not kept, so a manifest that was rewritten with another key is seen by the next read.
type manifestCache struct {
	limit int64
	load  func(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error)
	slots chan struct{} // one for each load that runs

	mu      sync.Mutex
	used    int64
	entries map[tier.SegmentKey]*list.Element
	order   list.List // of cachedManifest, the latest used in front
	loading *flight.Group[tier.SegmentKey, *manifestEntry]
}

type cachedManifest struct {
	key   tier.SegmentKey
	entry *manifestEntry
}

func newManifestCache(limit int64,
	load func(context.Context, *tier.Segment) (*manifestEntry, readcost.Cost, error)) *manifestCache {
	c := &manifestCache{
		limit: limit, load: load, slots: make(chan struct{}, maxManifestLoads),
		entries: make(map[tier.SegmentKey]*list.Element),
	}
	c.loading = flight.NewGroup[tier.SegmentKey, *manifestEntry](&c.mu)
	return c
}

// get gives a segment's manifest. The cost is that of the load when this caller ran it.
func (c *manifestCache) get(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error) {
	key := seg.Key()
	for {
		c.mu.Lock()
		if e := c.entries[key]; e != nil {
			c.order.MoveToFront(e)
			c.mu.Unlock()
			return e.Value.(cachedManifest).entry, readcost.Cost{}, nil
		}
		f, begun := c.loading.JoinLocked(key)
		c.mu.Unlock()
		if begun {
			return c.run(ctx, seg, f)
		}
		if m, err := f.Wait(ctx); err != flight.ErrAbandoned {
			return m, readcost.Cost{}, err
		}
	}
}

// peek gives a segment's manifest if it is in memory, else nil.
func (c *manifestCache) peek(key tier.SegmentKey) *manifestEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e.Value.(cachedManifest).entry
	}
	return nil
}

// run loads a manifest on the caller's goroutine and lands the flight.
func (c *manifestCache) run(ctx context.Context, seg *tier.Segment,
	f *flight.Flight[tier.SegmentKey, *manifestEntry]) (m *manifestEntry, cost readcost.Cost, err error) {
	result := flight.ErrUnfinished
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.LandLocked(m, result) {
			c.keepLocked(f.Key(), m)
		}
	}()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
		m, cost, err = c.load(ctx, seg)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if result = err; err != nil && ctx.Err() != nil {
		result = flight.ErrAbandoned
	}
	return m, cost, err
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
	c.loading.ForgetLocked(key)
}

// loadManifest reads, checks and unlocks a segment's manifest, wherever it is.
func (l *Layout) loadManifest(ctx context.Context, seg *tier.Segment) (*manifestEntry, readcost.Cost, error) {
	l.metrics.manifests.Inc()
	var (
		raw  []byte
		cost readcost.Cost
		stem string
	)
	candidates := stems(seg, "", l.prefixesOf(seg))
	err := tryStems(candidates, func(at string) error {
		b, _, c, err := l.store.ReadObject(ctx, at+SuffixManifest, MaxManifest)
		cost.Add(c)
		raw, stem = b, at
		return err
	})
	if e, ok := errors.AsType[*rangeio.Error](err); ok && e.Kind == rangeio.NotFound {
		err = &rangeio.Error{Kind: e.Kind, Op: e.Op, Key: e.Key,
			Err: fmt.Errorf("no manifest there or at %d other places (a segment in Iceberg format has none)", len(candidates)-1)}
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

// tryStems reads an object under each of the stems that it may have, until it is found. When it is under none, the
// error is that of the likeliest.
func tryStems(stems []string, read func(stem string) error) error {
	var first error
	for _, stem := range stems {
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
