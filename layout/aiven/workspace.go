package aiven

import (
	"container/list"
	"context"
	"fmt"
	"math/bits"
	"sync"

	"coldtap/internal/flight"
	"coldtap/tier"
)

// workspace is the memory for stored and open chunks: the buffers that reads work in, chunks that stay open, and free
// buffers for the next read, never more than limit bytes together. An open chunk that no read copies from is evicted
// when a read needs memory. A read never waits for memory while it holds some.
type workspace struct {
	limit int64

	mu      sync.Mutex
	used    int64            // bytes of all buffers
	free    map[int][][]byte // by capacity
	open    map[chunkKey]*openChunk
	opening *flight.Group[chunkKey, struct{}] // chunks that will be in open
	idle    list.List                         // of *openChunk without readers, the latest used in front
	queue   list.List                         // of *bufferWaiter, first come first served
}

// chunkKey names a stored chunk.
type chunkKey struct {
	segment tier.SegmentKey
	chunk   int
}

// chunkFlight is the opening of a chunk.
type chunkFlight = flight.Flight[chunkKey, struct{}]

// openChunk is a chunk that stays open. Guarded by the workspace.
type openChunk struct {
	key     chunkKey
	bytes   []byte // a whole buffer
	readers int
	element *list.Element // in idle
	dropped bool          // not in open any more
}

// bufferWaiter is a read that waits for buffers.
type bufferWaiter struct {
	sizes   []int
	granted chan [][]byte // capacity 1
}

func newWorkspace(limit int64) *workspace {
	w := &workspace{limit: limit, free: make(map[int][][]byte), open: make(map[chunkKey]*openChunk)}
	w.opening = flight.NewGroup[chunkKey, struct{}](&w.mu)
	return w
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

// bufferBytes is what buffers of these sizes take.
func bufferBytes(sizes ...int) int64 {
	var n int64
	for _, size := range sizes {
		n += int64(bufferClass(size))
	}
	return n
}

// acquire gives a buffer for each size, all at once, and waits in turn for the memory. More than limit is an error.
func (w *workspace) acquire(ctx context.Context, sizes ...int) ([][]byte, error) {
	if n := bufferBytes(sizes...); n > w.limit {
		return nil, fmt.Errorf("%d bytes of memory are needed, %d are allowed", n, w.limit)
	}
	w.mu.Lock()
	var buffers [][]byte
	if w.queue.Len() == 0 {
		buffers = w.tryAcquireLocked(sizes)
	}
	if buffers != nil {
		w.mu.Unlock()
		return allocate(buffers, sizes), nil
	}
	waiter := &bufferWaiter{sizes: sizes, granted: make(chan [][]byte, 1)}
	element := w.queue.PushBack(waiter)
	w.mu.Unlock()
	select {
	case buffers = <-waiter.granted:
		return allocate(buffers, sizes), nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case buffers = <-waiter.granted:
		for i, b := range buffers {
			if b == nil {
				w.used -= int64(bufferClass(sizes[i]))
			} else {
				w.freeLocked(b)
			}
		}
	default:
		w.queue.Remove(element)
	}
	w.grantLocked() // the next one may need less
	return nil, ctx.Err()
}

// allocate makes the buffers that were granted as nil. Without the mutex, because zeroing memory takes long.
func allocate(buffers [][]byte, sizes []int) [][]byte {
	for i, b := range buffers {
		if b == nil {
			b = make([]byte, bufferClass(sizes[i]))
		}
		buffers[i] = b[:sizes[i]]
	}
	return buffers
}

// tryAcquireLocked finds a free buffer for each size, or counts a new one as used, which allocate makes (nil in the
// result). The result is nil when there is not enough memory.
func (w *workspace) tryAcquireLocked(sizes []int) [][]byte {
	// A buffer that is larger than needed saves making one, but its surplus may be just what another size lacks.
	if buffers := w.fitLocked(sizes, 2); buffers != nil {
		return buffers
	}
	return w.fitLocked(sizes, 1)
}

// fitLocked is tryAcquireLocked with free buffers at most factor times as large as their class.
func (w *workspace) fitLocked(sizes []int, factor int) [][]byte {
	buffers := make([][]byte, len(sizes))
	var missing int64
	for i, size := range sizes {
		if buffers[i] = w.findFreeLocked(size, factor); buffers[i] == nil {
			missing += int64(bufferClass(size))
		}
	}
	for w.used+missing > w.limit {
		b := w.evictLocked()
		if b == nil {
			for _, b := range buffers {
				if b != nil {
					w.freeLocked(b)
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

// findFreeLocked takes out a free buffer of the size's class, or up to factor times as large.
func (w *workspace) findFreeLocked(size, factor int) []byte {
	for class := bufferClass(size); class <= factor*bufferClass(size); class = bufferClass(class + 1) {
		if len(w.free[class]) > 0 {
			return w.popFreeLocked(class)
		}
	}
	return nil
}

// popFreeLocked takes out a free buffer of a class that has one.
func (w *workspace) popFreeLocked(class int) []byte {
	buffers := w.free[class]
	last := len(buffers) - 1
	b := buffers[last]
	buffers[last] = nil
	if w.free[class] = buffers[:last]; last == 0 {
		delete(w.free, class)
	}
	return b
}

// evictLocked takes out a buffer that is not in use: a free one, else that of the chunk that was not read for longest.
func (w *workspace) evictLocked() []byte {
	for class := range w.free {
		return w.popFreeLocked(class)
	}
	oldest := w.idle.Back()
	if oldest == nil {
		return nil
	}
	c := oldest.Value.(*openChunk)
	w.dropLocked(c)
	return c.bytes
}

// release gives buffers back.
func (w *workspace) release(buffers ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range buffers {
		w.freeLocked(b)
	}
	w.grantLocked()
}

func (w *workspace) freeLocked(b []byte) {
	w.free[cap(b)] = append(w.free[cap(b)], b[:cap(b)])
}

// grantLocked gives those that wait, in turn, what there is memory for.
func (w *workspace) grantLocked() {
	for front := w.queue.Front(); front != nil; front = w.queue.Front() {
		waiter := front.Value.(*bufferWaiter)
		buffers := w.tryAcquireLocked(waiter.sizes)
		if buffers == nil {
			return
		}
		w.queue.Remove(front)
		waiter.granted <- buffers
	}
}

// inUse is how many bytes there are in buffers.
func (w *workspace) inUse() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used
}

// copyOrOpen copies part of a chunk to dst, from byte skip of the chunk on, if it is open. Otherwise it gives the
// flight that opens it. begin: the caller must open it and call opened, whatever happens.
func (w *workspace) copyOrOpen(key chunkKey, dst []byte, skip int64) (f *chunkFlight, begin bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.open[key]
	if c == nil {
		return w.opening.JoinLocked(key)
	}
	c.readers++
	if c.element != nil {
		w.idle.Remove(c.element)
		c.element = nil
	}
	w.mu.Unlock()
	copy(dst, c.bytes[skip:])
	w.mu.Lock()
	if c.readers--; c.readers == 0 {
		w.idleLocked(c)
	}
	return nil, false
}

// isOpen says whether a chunk is open.
func (w *workspace) isOpen(key chunkKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[key] != nil
}

// opened ends the opening of a chunk. Without an error, bytes (of a buffer that was acquired) belong to the workspace
// from now on.
func (w *workspace) opened(f *chunkFlight, bytes []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := f.LandLocked(struct{}{}, err)
	if err != nil {
		return
	}
	c := &openChunk{key: f.Key(), bytes: bytes, dropped: !keep}
	if keep {
		w.open[c.key] = c
	}
	w.idleLocked(c)
}

// idleLocked lets a chunk without readers stay open, or frees its buffer if the chunk was dropped.
func (w *workspace) idleLocked(c *openChunk) {
	if c.dropped {
		w.freeLocked(c.bytes)
	} else {
		c.element = w.idle.PushFront(c)
	}
	w.grantLocked()
}

// dropLocked takes a chunk out of open. Its buffer is free, or will be when its readers have ended.
func (w *workspace) dropLocked(c *openChunk) {
	if c.element != nil {
		w.idle.Remove(c.element)
		c.element = nil
	}
	c.dropped = true
	delete(w.open, c.key)
}

// drop forgets the open chunks of a segment.
func (w *workspace) drop(segment tier.SegmentKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opening.ForgetMatchesLocked(func(key chunkKey) bool { return key.segment == segment })
	for key, c := range w.open {
		if key.segment != segment {
			continue
		}
		idle := c.element != nil
		w.dropLocked(c)
		if idle {
			w.idleLocked(c)
		}
	}
}
