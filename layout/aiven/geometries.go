package aiven

import (
	"sync"

	"coldtap/tier"
)

// rememberedGeometries is how many segments' geometries are remembered at least, twice as many at most: of some 60
// bytes each, 8 MB. A cache of 64 GiB in chunks of 4 MiB holds 16,384.
const rememberedGeometries = 65536

// geometries remembers the stored chunk length on which ChunkSize bases its answer: for each segment the first one,
// from its manifest or guessed. 0 stands for a log that is read like a file. It also remembers under which of the
// prefixes segments were found.
type geometries struct {
	mu     sync.Mutex
	usual  int64   // of the manifest that was read last
	stored float64 // bytes that it has for each of its log
	chunks recent[int64]

	usualPrefix int // of the segment that was found last
	prefixes    recent[int]
}

// of gives a segment's stored chunk length. When none is known, the usual one becomes the segment's.
func (g *geometries) of(key tier.SegmentKey) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rememberLocked(key, g.usual)
}

// learn records what a segment's manifest says: its stored chunk length, and how many bytes are stored for each of the
// log.
func (g *geometries) learn(key tier.SegmentKey, chunk int64, stored float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usual, g.stored = chunk, stored
	g.rememberLocked(key, chunk)
}

// rememberLocked gives the chunk length that was remembered first, and keeps it among the latest used.
func (g *geometries) rememberLocked(key tier.SegmentKey, chunk int64) int64 {
	if first, ok := g.chunks.get(key); ok {
		chunk = first
	}
	g.chunks.put(key, chunk)
	return chunk
}

// prefixOf gives the index of the prefix that a segment was found under, or else of the one that the last segment was.
func (g *geometries) prefixOf(key tier.SegmentKey) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i, ok := g.prefixes.get(key); ok {
		return i
	}
	return g.usualPrefix
}

func (g *geometries) learnPrefix(key tier.SegmentKey, index int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usualPrefix = index
	g.prefixes.put(key, index)
}

// recent remembers a value for each of the segments that were used last.
type recent[V any] struct {
	// What was put since fresh was begun, and before. When fresh is full it takes the place of old, which is forgotten.
	fresh, old map[tier.SegmentKey]V
}

func (r *recent[V]) get(key tier.SegmentKey) (V, bool) {
	if v, ok := r.fresh[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	return v, ok
}

func (r *recent[V]) put(key tier.SegmentKey, v V) {
	if _, ok := r.fresh[key]; !ok && (r.fresh == nil || len(r.fresh) == rememberedGeometries) {
		r.old, r.fresh = r.fresh, make(map[tier.SegmentKey]V)
	}
	r.fresh[key] = v
}
