package aiven

import (
	"math"

	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/tier"
)

// usualManifest is the assumed length of a manifest that was not read yet, in bytes.
const usualManifest = 2 << 10

// Expect counts what ReadLog and ReadFiles would read: the manifest if it is not in memory, the small files, and for
// each piece one GET of the stored chunks that no piece before it has opened. For a segment whose manifest was not
// read, stored lengths are estimated from the manifest that was read last, as in ChunkSize.
func (l *Layout) Expect(seg *tier.Segment, d layout.Demand) (c readcost.Cost) {
	if checkSegment(seg) != nil || !d.Files && len(d.Pieces) == 0 {
		return c
	}
	m := l.manifests.peek(seg.Key())
	if m == nil {
		c.Requests++
		c.Bytes += usualManifest
	}
	if d.Files {
		requests, bytes := 1, layout.SmallFiles(seg)
		if m != nil && m.separate {
			requests = fileCount
		} else if m != nil {
			if bytes = m.indexSize(); bytes == 0 {
				requests = 0
			}
		}
		c.Requests += requests
		c.Bytes += bytes
	}
	x := l.geometries.guess(seg.Size)
	if m != nil {
		x = &m.chunks
		if m.plain() {
			x = nil
		}
	}
	if x == nil {
		c.Add(layout.ExpectPlain(seg, &d))
		return c
	}
	opened := map[int]bool{} // by pieces before
	for _, n := range d.Pieces {
		from, to := d.Piece(seg, n)
		first, last := int(from/x.chunk), int((to-1)/x.chunk)
		at, until := first, last
		for k, i := range [2]int{first, last} {
			lo, hi := x.covers(i)
			switch partly := from > lo || to < hi; {
			case !partly, k == 1 && first == last:
			case !opened[i] && !l.space.isOpen(chunkKey{seg.Key(), i}):
				opened[i] = true
			case i == first:
				at++
			default:
				until--
			}
		}
		if at <= until {
			lo, hi := x.span(at, until)
			c.Requests++
			c.Bytes += hi - lo
		}
	}
	return c
}

// guess is the chunk index of a log whose manifest was not read; nil for a log that is read like a file.
func (g *geometries) guess(size int64) *chunkIndex {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.usual == 0 || size == 0 {
		return nil
	}
	x, err := newChunkIndex(g.usual, size)
	if err != nil {
		return nil
	}
	stored := func(n int64) int64 { return int64(math.Round(float64(n) * g.stored)) }
	x.stored, x.last = stored(x.chunk), stored(size-int64(x.count-1)*x.chunk)
	return &x
}
