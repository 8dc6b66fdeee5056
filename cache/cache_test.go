package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"coldtap/internal/invariants"
	"coldtap/internal/readcost"
	"coldtap/readerpool"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testChunk = 1024

// store is a fake object store: every byte is a function of its segment and position, and loads are counted.
type store struct {
	mu    sync.Mutex
	loads map[Key]int
	total int
	// before runs in each load; its error is the load's.
	before func(ctx context.Context, key Key, lane readerpool.Lane) error
}

// segmentOf is one segment of a store.
type segmentOf struct {
	st  *store
	key Key
}

func (s segmentOf) LoadChunk(ctx context.Context, off int64, dst []byte, lane readerpool.Lane) (readcost.Cost, error) {
	key := s.key
	key.Chunk = int32(off / testChunk)
	s.st.mu.Lock()
	if s.st.loads == nil {
		s.st.loads = map[Key]int{}
	}
	s.st.loads[key]++
	s.st.total++
	s.st.mu.Unlock()
	if s.st.before != nil {
		if err := s.st.before(ctx, key, lane); err != nil {
			return readcost.Cost{Requests: 1}, err
		}
	}
	fill(dst, s.key, off)
	return readcost.Cost{Requests: 1, Bytes: int64(len(dst))}, nil
}

func (st *store) count() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.total
}

// word is the content at a position of a segment.
func word(key Key, pos int64) uint64 {
	h := binary.LittleEndian.Uint64(key.Segment.Partition.Topic[:]) ^ binary.LittleEndian.Uint64(key.Segment.ID[:])*0x9E3779B97F4A7C15 ^ uint64(key.Segment.Partition.Partition)<<40
	h ^= uint64(pos) * 0xBF58476D1CE4E5B9
	return h ^ h>>29
}

func fill(dst []byte, key Key, off int64) {
	i := 0
	for ; i+8 <= len(dst); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], word(key, off+int64(i)))
	}
	for ; i < len(dst); i++ {
		dst[i] = byte(word(key, off+int64(i)))
	}
}

// intact says what is wrong with a chunk's bytes.
func intact(ch *Chunk) error {
	b, key := ch.Bytes(), ch.Key()
	off := int64(key.Chunk) * testChunk
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if got, want := binary.LittleEndian.Uint64(b[i:]), word(key, off+int64(i)); got != want {
			return fmt.Errorf("chunk %v: %x at %d, not %x", key, got, i, want)
		}
	}
	for ; i < len(b); i++ {
		if got, want := b[i], byte(word(key, off+int64(i))); got != want {
			return fmt.Errorf("chunk %v: %x at %d, not %x", key, got, i, want)
		}
	}
	return nil
}

// segmentKeyN is the key of chunk 0 of segment n.
func segmentKeyN(n int) Key {
	var k Key
	k.Segment.Partition.Topic[0], k.Segment.Partition.Partition = 7, 3
	binary.LittleEndian.PutUint32(k.Segment.ID[:], uint32(n))
	return k
}

// chunkOf requests chunk n of a segment.
func (st *store) chunkOf(segment, n int) Request {
	key := segmentKeyN(segment)
	key.Chunk = int32(n)
	return Request{Key: key, Off: int64(n) * testChunk, Len: testChunk, Source: segmentOf{st, segmentKeyN(segment)}}
}

// open makes a cache of slabs slabs that must be empty when the test ends.
func open(t testing.TB, slabs int, change ...func(*Config)) *Cache {
	t.Helper()
	return openHashed(t, hashKey, slabs, change...)
}

func openHashed(t testing.TB, hash func(Key) uint64, slabs int, change ...func(*Config)) *Cache {
	t.Helper()
	cfg := Config{Memory: int64(slabs) * testChunk, Chunk: testChunk, Registerer: prometheus.NewRegistry()}
	for _, f := range change {
		f(&cfg)
	}
	c, err := newCache(cfg, hash)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeEmpty(t, c) })
	return c
}

// closeEmpty closes a cache of which nobody may hold anything any more.
func closeEmpty(t testing.TB, c *Cache) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := c.SlabsInUse(); n != 0 {
		t.Errorf("%d slabs are still in use after Close", n)
	}
	if n := c.unread.Load(); n != 0 {
		t.Errorf("%d chunks are still counted as unread after Close", n)
	}
	if n := c.flights.Load(); n != 0 {
		t.Errorf("%d flights are still counted after Close", n)
	}
}

// read acquires, checks and releases a chunk.
func read(c *Cache, r Request) (Outcome, error) {
	ch, outcome, err := c.Acquire(context.Background(), r)
	if err != nil {
		return outcome, err
	}
	defer ch.Release()
	if ch.Key() != r.Key || len(ch.Bytes()) != r.Len {
		return outcome, fmt.Errorf("asked for %v (%d bytes), got %v (%d bytes)", r.Key, r.Len, ch.Key(), len(ch.Bytes()))
	}
	return outcome, intact(ch)
}

func mustRead(t testing.TB, c *Cache, r Request) Outcome {
	t.Helper()
	outcome, err := read(c, r)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// pinned is what readers hold, as the metric tells.
func (c *Cache) pinned() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pinnedLocked()
}

func TestAcquireLoadsOnceThenServesFromMemory(t *testing.T) {
	c, st := open(t, 8), &store{}
	if _, ok := c.TryAcquire(st.chunkOf(1, 0).Key); ok {
		t.Fatal("found a chunk that nobody loaded")
	}
	if o := mustRead(t, c, st.chunkOf(1, 0)); o.Level != Miss || o.Cost != (readcost.Cost{Requests: 1, Bytes: testChunk}) {
		t.Fatalf("first read: %+v", o)
	}
	if o := mustRead(t, c, st.chunkOf(1, 0)); o.Level != Mem || o.Cost != (readcost.Cost{}) {
		t.Fatalf("second read: %+v", o)
	}
	ch, ok := c.TryAcquire(st.chunkOf(1, 0).Key)
	if !ok {
		t.Fatal("TryAcquire misses what Acquire served")
	}
	if err := intact(ch); err != nil {
		t.Fatal(err)
	}
	if got := c.pinned(); got != testChunk {
		t.Errorf("%d bytes pinned with one chunk held", got)
	}
	ch.Release()
	if got := c.pinned(); got != 0 {
		t.Errorf("%d bytes pinned with none held", got)
	}
	if st.count() != 1 {
		t.Errorf("%d loads", st.count())
	}
}

func TestImpossibleRequests(t *testing.T) {
	c, st := open(t, 8), &store{}
	for name, change := range map[string]func(*Request){
		"empty":    func(r *Request) { r.Len = 0 },
		"negative": func(r *Request) { r.Len = -1 },
		"too long": func(r *Request) { r.Len = testChunk + 1 },
		"position": func(r *Request) { r.Off = -1 },
		"source":   func(r *Request) { r.Source = nil },
	} {
		r := st.chunkOf(1, 0)
		change(&r)
		_, _, err := c.Acquire(context.Background(), r)
		var e *Error
		if !errors.As(err, &e) || e.Kind != BadRequest || e.Retriable() {
			t.Errorf("%s: %v", name, err)
		}
		if c.Prefetch(context.Background(), r) {
			t.Errorf("%s: prefetched", name)
		}
	}
	if c.SlabsInUse() != 0 || st.count() != 0 {
		t.Errorf("%d slabs in use, %d loads", c.SlabsInUse(), st.count())
	}
}

// J10a: a chunk that does not fit into the memory is a configuration error, said at the start.
func TestJ10NewRefusesWhatCannotWork(t *testing.T) {
	for name, cfg := range map[string]Config{
		"memory below four chunks": {Memory: 4*testChunk - 1, Chunk: testChunk},
		"no memory":                {Chunk: testChunk},
		"no chunk":                 {Memory: 1 << 20},
		"negative chunk":           {Memory: 1 << 20, Chunk: -1},
		"window above all":         {Memory: 1 << 20, Chunk: testChunk, WindowShare: 1.1},
		"negative window":          {Memory: 1 << 20, Chunk: testChunk, WindowShare: -0.1},
		"negative timeout":         {Memory: 1 << 20, Chunk: testChunk, FlightTimeout: -1},
	} {
		if c, err := New(cfg); err == nil {
			c.Close(context.Background())
			t.Errorf("%s: accepted", name)
		}
	}
}

// J10b: reading many times the memory never takes more of it, and the bound holds for every share of the window.
func TestJ10MemoryStaysBounded(t *testing.T) {
	for _, share := range []float64{0.01, 0.25, 0.5, 1} {
		c, st := open(t, 16, func(cfg *Config) { cfg.WindowShare = share }), &store{}
		for n := range 300 {
			mustRead(t, c, st.chunkOf(1, n))
			if used := c.SlabsInUse(); used > 16 {
				t.Fatalf("window %v: %d slabs in use of 16", share, used)
			}
		}
		if n := c.SlabsInUse(); n < 12 {
			t.Errorf("window %v: only %d slabs of 16 hold something after a scan", share, n)
		}
		if st.count() != 300 {
			t.Errorf("window %v: %d loads of 300 chunks", share, st.count())
		}
	}
}

// J10c: chunks of one byte cost a sixteenth of a slab, not nothing, and are bounded like others.
func TestJ10TinyChunks(t *testing.T) {
	c, st := open(t, 8), &store{}
	for n := range 2000 {
		r := st.chunkOf(1, n)
		r.Len = 1
		mustRead(t, c, r)
	}
	cached := 0
	for n := range 2000 {
		if c.Contains(st.chunkOf(1, n).Key) {
			cached++
		}
	}
	if cached < 8*parts*3/4 || cached > 8*parts {
		t.Errorf("%d one-byte chunks cached in %d places", cached, 8*parts)
	}
	// A whole slab is to be had again, and costs a slab's worth of small ones, not all of them.
	mustRead(t, c, st.chunkOf(2, 0))
	left := 0
	for n := range 2000 {
		if c.Contains(st.chunkOf(1, n).Key) {
			left++
		}
	}
	if left < cached-parts {
		t.Errorf("one slab cost %d small chunks", cached-left)
	}
}

// J5: everything in the key tells chunks apart.
func TestJ5KeysDoNotMix(t *testing.T) {
	c, st := open(t, 32), &store{}
	base := segmentKeyN(1)
	keys := []Key{base, base, base, base}
	keys[1].Segment.Partition.Topic[15] = 1
	keys[2].Segment.ID[15] = 1
	keys[3].Segment.Partition.Partition++
	for range 2 {
		for _, key := range keys {
			if _, err := read(c, Request{Key: key, Len: testChunk, Source: segmentOf{st, key}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st.count() != len(keys) {
		t.Errorf("%d loads of %d chunks", st.count(), len(keys))
	}
}

// J14: keys with the same hash push each other out of ristretto at worst; nobody gets another's bytes, nothing leaks.
func TestJ14HashCollisions(t *testing.T) {
	c, st := openHashed(t, func(Key) uint64 { return 42 }, 8), &store{}
	for range 5 {
		for n := range 30 {
			mustRead(t, c, st.chunkOf(n%3, n))
		}
	}
	for n := range 3 {
		k := segmentKeyN(n)
		c.DropSegment(k.Segment)
	}
	if n := c.SlabsInUse(); n != 0 {
		t.Errorf("%d slabs in use after every segment was dropped", n)
	}
}

func TestDropSegment(t *testing.T) {
	c, st := open(t, 16), &store{}
	for n := range 6 {
		mustRead(t, c, st.chunkOf(1, n))
		mustRead(t, c, st.chunkOf(2, n))
	}
	held, ok := c.TryAcquire(st.chunkOf(1, 0).Key)
	if !ok {
		t.Fatal("chunk 0 is gone")
	}
	k := segmentKeyN(1)
	c.DropSegment(k.Segment)
	for n := range 6 {
		if _, ok := c.TryAcquire(st.chunkOf(1, n).Key); ok {
			t.Errorf("chunk %d of the dropped segment is found", n)
		}
		if !c.Contains(st.chunkOf(2, n).Key) {
			t.Errorf("chunk %d of another segment went too", n)
		}
	}
	if err := intact(held); err != nil {
		t.Errorf("a reader's chunk was taken away: %v", err)
	}
	if n := c.SlabsInUse(); n != 7 {
		t.Errorf("%d slabs in use for 6 chunks and one held", n)
	}
	held.Release()
	if n := c.SlabsInUse(); n != 6 {
		t.Errorf("%d slabs in use for 6 chunks", n)
	}
}

// A chunk whose bytes are damaged is forgotten alone, wherever it lives, and never at the cost of one that was loaded
// in its place.
func TestDrop(t *testing.T) {
	c, st := open(t, 16), &store{}
	for n := range 12 { // more than the window holds
		mustRead(t, c, st.chunkOf(1, n))
	}
	c.frequency.waitDecided()
	for _, n := range []int{0, 11} {
		held, ok := c.TryAcquire(st.chunkOf(1, n).Key)
		if !ok {
			t.Fatalf("chunk %d is gone", n)
		}
		before := c.SlabsInUse()
		c.Drop(held)
		c.Drop(held)
		if c.Contains(held.Key()) || !c.Contains(st.chunkOf(1, 5).Key) {
			t.Errorf("chunk %d is found, or another is not", n)
		}
		if err := intact(held); err != nil {
			t.Errorf("a reader's chunk was taken away: %v", err)
		}
		loads := st.count()
		mustRead(t, c, st.chunkOf(1, n))
		c.Drop(held)
		if st.count() != loads+1 || !c.Contains(held.Key()) {
			t.Errorf("chunk %d: %d loads, and the new one must stay", n, st.count()-loads)
		}
		if n := c.SlabsInUse(); n != before+1 {
			t.Errorf("%d slabs in use, %d before", n, before)
		}
		held.Release()
		c.Drop(held) // dead
		if n := c.SlabsInUse(); n != before {
			t.Errorf("%d slabs in use, %d before", n, before)
		}
	}
	if n := testutil.ToFloat64(c.metrics.evictions[byDrop]); n != 2 {
		t.Errorf("%v chunks dropped", n)
	}
}

func TestChunkOutlivesClose(t *testing.T) {
	c, st := open(t, 8), &store{}
	ch, _, err := c.Acquire(context.Background(), st.chunkOf(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.TryAcquire(ch.Key()); ok {
		t.Error("a closed cache finds chunks")
	}
	if _, _, err := c.Acquire(context.Background(), st.chunkOf(1, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("acquire after close: %v", err)
	}
	if c.Prefetch(context.Background(), st.chunkOf(1, 1)) {
		t.Error("prefetch after close")
	}
	c.DropSegment(tier.SegmentKey{})
	if err := intact(ch); err != nil {
		t.Error(err)
	}
	ch.Retain()
	ch.Release()
	if c.SlabsInUse() != 1 {
		t.Errorf("%d slabs in use for one chunk held", c.SlabsInUse())
	}
	ch.Release()
	if c.SlabsInUse() != 0 {
		t.Error("the arena outlives the last chunk")
	}
}

func TestDoubleReleasePanics(t *testing.T) {
	ch := &Chunk{cache: &Cache{}}
	ch.refs.Store(0)
	for name, f := range map[string]func(){"release": ch.Release, "retain": ch.Retain} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a dead chunk went unnoticed", name)
				}
			}()
			f()
		}()
		ch.refs.Store(0)
	}
}

// The hit path runs for every chunk of every answer, so it must not feed the garbage collector.
func TestHitAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector sync.Pool forgets at random, and ristretto counts look-ups in one")
	}
	c, st := open(t, 8), &store{}
	r := st.chunkOf(1, 0)
	mustRead(t, c, r)
	if n := testing.AllocsPerRun(1000, func() {
		ch, ok := c.TryAcquire(r.Key)
		if !ok {
			t.Fatal("gone")
		}
		ch.MarkVerified(0, 100)
		ch.Release()
	}); n != 0 {
		t.Errorf("TryAcquire and Release allocate %v times", n)
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		ch, _, err := c.Acquire(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		ch.Release()
	}); n != 0 {
		t.Errorf("Acquire of a chunk in memory allocates %v times", n)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := open(t, 8, func(cfg *Config) { cfg.Registerer = reg })
	st := &store{}
	mustRead(t, c, st.chunkOf(1, 0))
	mustRead(t, c, st.chunkOf(1, 0))
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "," + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"coldtap_cache_lookups_total,mem":      1,
		"coldtap_cache_lookups_total,miss":     1,
		"coldtap_cache_lookups_total,joined":   0,
		"coldtap_cache_loads_total":            1,
		"coldtap_cache_load_errors_total":      0,
		"coldtap_cache_evictions_total,window": 0,
		"coldtap_cache_evictions_total,force":  0,
		"coldtap_cache_prefetch_total,refused": 0,
		"coldtap_cache_no_slab_total":          0,
		"coldtap_cache_arena_bytes":            8 * testChunk,
		"coldtap_cache_arena_in_use_bytes":     testChunk,
		"coldtap_cache_arena_pinned_bytes":     0,
		"coldtap_cache_arena_loading_bytes":    0,
		"coldtap_cache_slab_waiters":           0,
		"coldtap_cache_flights":                0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), not %v", name, v, ok, want)
		}
	}
	if _, err := New(Config{Memory: 8 * testChunk, Chunk: testChunk, Registerer: reg}); err == nil {
		t.Error("a second cache on the same registerer went unnoticed")
	}
}

// A flight that lands between two look-ups of a herd's read-ahead must not be flown again by each of the herd.
func TestHerdOfPrefetchesLoadsOnce(t *testing.T) {
	const chunks, herd = 48, 64
	c, st := open(t, 2*chunks), &store{}
	for n := range chunks {
		var wg sync.WaitGroup
		for range herd {
			wg.Go(func() { c.Prefetch(context.Background(), st.chunkOf(1, n)) })
		}
		wg.Wait()
		ch, _, err := c.Acquire(context.Background(), st.chunkOf(1, n))
		if err != nil {
			t.Fatal(err)
		}
		ch.Release()
	}
	if st.count() != chunks {
		t.Errorf("%d loads of %d chunks", st.count(), chunks)
	}
}
