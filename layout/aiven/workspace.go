package aiven

import (
	"container/list"
	"context"
	"fmt"
	"math/bits"
	"sync"

	"coldtap/tier"
)

// workspace is all the memory in which chunks are stored and open: buffers that a read works in, chunks that stay open,
// and blank buffers for the next read. Together they never have more than limit bytes. A chunk that nobody reads at
// this moment gives way to whoever needs room; nobody waits for room while holding some.
type workspace struct {
	limit int64

	mu    sync.Mutex
	used  int64            // bytes of all buffers there are
	blank map[int][][]byte // by capacity
	open  map[chunkKey]*openChunk
	idle  list.List // of *openChunk that nobody reads, the latest used in front
	queue list.List // of *claim, first come first served
}

// chunkKey names a stored chunk.
type chunkKey struct {
	id    tier.SegmentKey
	chunk int
}

// openChunk is a chunk that is open or being opened.
type openChunk struct {
	key  chunkKey
	done chan struct{} // closed once it is open or has failed; err stands from then on
	err  error

	// Guarded by the workspace.
	buffer  []byte // whole
	bytes   []byte // the chunk's
	readers int
	place   *list.Element // in idle
	gone    bool          // not in the table any more
}

// claim is a read that waits for buffers.
type claim struct {
	sizes []int
	given chan [][]byte // capacity 1
}

func newWorkspace(limit int64) *workspace {
	return &workspace{limit: limit, blank: make(map[int][][]byte), open: make(map[chunkKey]*openChunk)}
}

// bufferClass rounds a size up, so that buffers fit again: four classes for each doubling, at most a quarter too large.
func bufferClass(n int) int {
	const least = 4 << 10
	if n <= least {
		return least
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + step - 1) / step * step
}

// room is what buffers of these sizes take.
func room(sizes ...int) int64 {
	var n int64
	for _, size := range sizes {
		n += int64(bufferClass(size))
	}
	return n
}

// take gives a buffer for each size, all at once, waiting in turn until there is room. It is not for more than limit.
func (w *workspace) take(ctx context.Context, sizes ...int) ([][]byte, error) {
	if n := room(sizes...); n > w.limit {
		return nil, fmt.Errorf("%d bytes of memory are needed, %d are allowed", n, w.limit)
	}
	w.mu.Lock()
	var buffers [][]byte
	if w.queue.Len() == 0 {
		buffers = w.tryLocked(sizes)
	}
	if buffers != nil {
		w.mu.Unlock()
		return fill(buffers, sizes), nil
	}
	c := &claim{sizes: sizes, given: make(chan [][]byte, 1)}
	place := w.queue.PushBack(c)
	w.mu.Unlock()
	select {
	case buffers = <-c.given:
		return fill(buffers, sizes), nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case buffers = <-c.given:
		for i, b := range buffers {
			if b == nil {
				w.used -= int64(bufferClass(sizes[i]))
			} else {
				w.giveLocked(b)
			}
		}
	default:
		w.queue.Remove(place)
	}
	w.serveLocked() // the next one may need less
	return nil, ctx.Err()
}

// fill makes the buffers for which there is room but no blank one, outside of the lock: zeroing takes its time.
func fill(buffers [][]byte, sizes []int) [][]byte {
	for i, b := range buffers {
		if b == nil {
			b = make([]byte, bufferClass(sizes[i]))
		}
		buffers[i] = b[:sizes[i]]
	}
	return buffers
}

// tryLocked finds a blank buffer for each size, or makes room for a new one (nil in the result). A nil result: no room.
func (w *workspace) tryLocked(sizes []int) [][]byte {
	// A buffer that is larger than need be saves making one, but its surplus may be just what another size lacks.
	if buffers := w.fitLocked(sizes, 2); buffers != nil {
		return buffers
	}
	return w.fitLocked(sizes, 1)
}

// fitLocked is tryLocked with blank buffers at most factor times as large as their class.
func (w *workspace) fitLocked(sizes []int, factor int) [][]byte {
	buffers := make([][]byte, len(sizes))
	var missing int64
	for i, size := range sizes {
		if buffers[i] = w.pickLocked(size, factor); buffers[i] == nil {
			missing += int64(bufferClass(size))
		}
	}
	for w.used+missing > w.limit {
		b := w.evictLocked()
		if b == nil {
			for _, b := range buffers {
				if b != nil {
					w.giveLocked(b)
				}
			}
			return nil
		}
		w.used -= int64(cap(b))
		for i, size := range sizes {
			if buffers[i] == nil && cap(b) == bufferClass(size) {
				buffers[i] = b
				w.used += int64(cap(b))
				missing -= int64(cap(b))
				break
			}
		}
	}
	w.used += missing
	return buffers
}

// pickLocked finds a blank buffer that is large enough and not too large.
func (w *workspace) pickLocked(size, factor int) []byte {
	for class := bufferClass(size); class <= factor*bufferClass(size); class = bufferClass(class + 1) {
		if have := w.blank[class]; len(have) > 0 {
			last := len(have) - 1
			b := have[last]
			have[last] = nil
			w.setBlankLocked(class, have[:last])
			return b
		}
	}
	return nil
}

func (w *workspace) setBlankLocked(class int, have [][]byte) {
	if len(have) == 0 {
		delete(w.blank, class)
		return
	}
	w.blank[class] = have
}

// evictLocked takes out a buffer that nobody works in: a blank one, else that of the chunk that was not read for
// longest.
func (w *workspace) evictLocked() []byte {
	for class, have := range w.blank {
		last := len(have) - 1
		b := have[last]
		have[last] = nil
		w.setBlankLocked(class, have[:last])
		return b
	}
	last := w.idle.Back()
	if last == nil {
		return nil
	}
	c := last.Value.(*openChunk)
	w.forgetLocked(c)
	b := c.buffer
	c.buffer, c.bytes = nil, nil
	return b
}

// give returns buffers.
func (w *workspace) give(buffers ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range buffers {
		w.giveLocked(b)
	}
	w.serveLocked()
}

func (w *workspace) giveLocked(b []byte) {
	w.blank[cap(b)] = append(w.blank[cap(b)], b[:cap(b)])
}

// serveLocked gives to those who wait, in turn, what there is room for.
func (w *workspace) serveLocked() {
	for front := w.queue.Front(); front != nil; front = w.queue.Front() {
		c := front.Value.(*claim)
		buffers := w.tryLocked(c.sizes)
		if buffers == nil {
			return
		}
		w.queue.Remove(front)
		c.given <- buffers
	}
}

// inUse is how many bytes there are in buffers.
func (w *workspace) inUse() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// ask copies part of a chunk, from byte skip on, if it is open. Else it gives the chunk, which is being opened, and
// says whether it is the caller who must open it (and call publish, whatever happens).
func (w *workspace) ask(key chunkKey, dst []byte, skip int64) (pending *openChunk, mine bool) {
	w.mu.Lock()
	c := w.open[key]
	if c == nil {
		c = &openChunk{key: key, done: make(chan struct{})}
		w.open[key] = c
		w.mu.Unlock()
		return c, true
	}
	if c.bytes == nil {
		w.mu.Unlock()
		return c, false
	}
	c.readers++
	if c.place != nil {
		w.idle.Remove(c.place)
		c.place = nil
	}
	w.mu.Unlock()
	copy(dst, c.bytes[skip:])
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.readers--; c.readers == 0 {
		w.restLocked(c)
	}
	return nil, false
}

// holds says that a chunk is open.
func (w *workspace) holds(key chunkKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.open[key]
	return c != nil && c.bytes != nil
}

// publish ends the opening of a chunk. Without an error, bytes (of a buffer that was taken) belong to the workspace
// from now on.
func (w *workspace) publish(c *openChunk, bytes []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.err = err
	if err != nil {
		w.forgetLocked(c)
	} else {
		c.buffer, c.bytes = bytes, bytes
		w.restLocked(c)
	}
	close(c.done)
}

// restLocked leaves a chunk that nobody reads open, or makes its buffer blank if the chunk was dropped.
func (w *workspace) restLocked(c *openChunk) {
	if c.gone {
		w.giveLocked(c.buffer)
		c.buffer, c.bytes = nil, nil
	} else {
		c.place = w.idle.PushFront(c)
	}
	w.serveLocked()
}

func (w *workspace) forgetLocked(c *openChunk) {
	if c.place != nil {
		w.idle.Remove(c.place)
		c.place = nil
	}
	if !c.gone {
		delete(w.open, c.key)
		c.gone = true
	}
}

// drop forgets the open chunks of a segment.
func (w *workspace) drop(id tier.SegmentKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range w.open {
		if key.id != id {
			continue
		}
		idle := c.place != nil
		w.forgetLocked(c)
		if idle {
			w.restLocked(c)
		}
	}
}
