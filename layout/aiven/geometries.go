package aiven

import "sync"

// rememberedGeometries is how many segments' geometries are remembered at least, twice as many at most: of some 60 bytes
// each, 8 MB. A cache of 64 GiB in chunks of 4 MiB holds 16,384.
const rememberedGeometries = 65536

// geometries remembers for which stored chunk ChunkSize answers, for each segment the first answer: of its manifest, or
// a guess. 0 stands for a log that is read like a file.
type geometries struct {
	mu    sync.Mutex
	usual int64 // of the manifest that was read last
	// What was used since fresh was begun, and before. When fresh is full it takes the place of old, which is forgotten.
	fresh, old map[segmentKey]int64
}

// of gives a segment's stored chunk, and makes it the usual one when none is known.
func (g *geometries) of(key segmentKey) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.settleLocked(key, g.usual)
}

// learn is told what a segment's manifest says.
func (g *geometries) learn(key segmentKey, chunk int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usual = chunk
	g.settleLocked(key, chunk)
}

func (g *geometries) settleLocked(key segmentKey, chunk int64) int64 {
	if first, ok := g.fresh[key]; ok {
		return first
	}
	if first, ok := g.old[key]; ok {
		chunk = first
	}
	if g.fresh == nil || len(g.fresh) == rememberedGeometries {
		g.old, g.fresh = g.fresh, make(map[segmentKey]int64)
	}
	g.fresh[key] = chunk
	return chunk
}
