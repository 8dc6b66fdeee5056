package aiven

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"coldtap/internal/readcost"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// putSegment stores a log and gives its segment.
func (s *stand) putSegment(w *writer, log []byte) *tier.Segment {
	seg := testSegment(len(log))
	w.put(s.Memory, seg, log, testFiles())
	return seg
}

func mustRead(t *testing.T, s *stand, seg *tier.Segment, log []byte, from, to int64) readcost.Cost {
	t.Helper()
	dst := make([]byte, to-from)
	cost, err := s.ReadLog(t.Context(), seg, dst, from)
	if err != nil {
		t.Fatalf("bytes %d to %d: %v", from, to, err)
	}
	if !bytes.Equal(dst, log[from:to]) {
		t.Fatalf("bytes %d to %d are wrong", from, to)
	}
	return cost
}

func isContentError(err error) bool {
	_, ok := errors.AsType[*layout.Error](err)
	return ok
}

func TestAnyRange(t *testing.T) {
	log := testLog(61_728)
	size := int64(len(log))
	for _, chunk := range []int{1000, 25_000, 61_728, 1 << 20} {
		for name, w := range writers(chunk) {
			s := newStand(t, Options{})
			seg := s.putSegment(w, log)
			for _, r := range [][2]int64{{0, size}, {0, 1}, {size - 1, size}, {999, 1001}, {25_000, 50_000}, {24_999, 50_001}, {7, 7}} {
				mustRead(t, s, seg, log, r[0], r[1])
			}
			random := rand.New(rand.NewPCG(1, 2))
			for range 15 {
				from := random.Int64N(size)
				mustRead(t, s, seg, log, from, from+random.Int64N(size-from+1))
			}
			for _, r := range [][2]int64{{-1, 1}, {0, size + 1}, {size, 1}, {1<<63 - 1, 1}} {
				if _, err := s.ReadLog(t.Context(), seg, make([]byte, r[1]), r[0]); !isContentError(err) {
					t.Errorf("%s: %d bytes at %d: %v", name, r[1], r[0], err)
				}
			}
		}
	}
}

// Each piece of a sequential read is one GET of its stored chunks and nothing else, and every chunk is fetched once.
func TestOneRequestPerPiece(t *testing.T) {
	log := testLog(150_000)
	for name, w := range writers(9_000) {
		s := newStand(t, Options{})
		seg := s.putSegment(w, log)
		if _, _, err := s.ReadFiles(t.Context(), seg); err != nil {
			t.Fatal(err)
		}
		piece := s.ChunkSize(seg, 60_000)
		if w.compressed || w.keyID != "" {
			if piece != 54_000 {
				t.Errorf("%s: pieces of %d", name, piece)
			}
		} else if piece != 32<<10 {
			t.Errorf("%s: pieces of %d", name, piece)
		}
		var bytesRead int64
		for off := int64(0); off < seg.Size; off += piece {
			cost := mustRead(t, s, seg, log, off, min(off+piece, seg.Size))
			if cost.Requests != 1 {
				t.Errorf("%s: %d requests at %d", name, cost.Requests, off)
			}
			bytesRead += cost.Bytes
		}
		if stored := int64(len(s.Bytes(mainPath(seg) + SuffixLog))); bytesRead != stored {
			t.Errorf("%s: %d bytes were read of an object of %d", name, bytesRead, stored)
		}
		if n := s.gets(SuffixManifest); n != 1 {
			t.Errorf("%s: the manifest was read %d times", name, n)
		}
	}
}

// Stored chunks larger than any piece: sixteen pieces come out of each with one request, whoever reads them at a time.
func TestLargeChunkIsFetchedOnce(t *testing.T) {
	log := testLog(225_000)
	for name, w := range writers(1 << 16) {
		if name == "plain" {
			continue
		}
		for _, readers := range []int{1, 3, 40} {
			s := newStand(t, Options{Memory: 1 << 20})
			seg := s.putSegment(w, log)
			if _, _, err := s.ReadFiles(t.Context(), seg); err != nil {
				t.Fatal(err)
			}
			piece := s.ChunkSize(seg, 4_200)
			if piece != 4096 {
				t.Fatalf("pieces of %d", piece)
			}
			offs := make(chan int64)
			var wg sync.WaitGroup
			for range readers {
				wg.Go(func() {
					for off := range offs {
						dst := make([]byte, min(piece, seg.Size-off))
						if _, err := s.ReadLog(context.Background(), seg, dst, off); err != nil || !bytes.Equal(dst, log[off:off+int64(len(dst))]) {
							t.Errorf("%s: piece at %d: %v", name, off, err)
						}
					}
				})
			}
			for off := int64(0); off < seg.Size; off += piece {
				offs <- off
			}
			close(offs)
			wg.Wait()
			if n := s.gets(SuffixLog); n != 4 {
				t.Errorf("%s, %d readers: %d requests for 4 chunks", name, readers, n)
			}
		}
	}
}

// The writer's chunk does not divide pieces: what two pieces share is fetched once.
func TestSharedChunkIsFetchedOnce(t *testing.T) {
	log := testLog(250_000)
	w := writers(30_011)["both"]
	s := newStand(t, Options{})
	seg := s.putSegment(w, log)
	var sum int64
	for off := int64(0); off < seg.Size; off += 70_000 {
		cost := mustRead(t, s, seg, log, off, min(off+70_000, seg.Size))
		if off > 0 {
			sum += cost.Bytes
		} else {
			sum += cost.Bytes - int64(len(s.Bytes(mainPath(seg)+SuffixManifest)))
		}
		if off > 0 && cost.Requests > 1 {
			t.Errorf("%d requests at %d", cost.Requests, off)
		}
	}
	if stored := int64(len(s.Bytes(mainPath(seg) + SuffixLog))); sum != stored {
		t.Errorf("%d bytes were read of an object of %d", sum, stored)
	}
}

// Whatever the chunk, the memory has its bound: reads take turns, split up, or are refused before they ask.
func TestMemoryBound(t *testing.T) {
	log := testLog(500_000)
	for _, tt := range []struct {
		chunk  int
		memory int64
		fits   bool
	}{
		{10_000, 64 << 10, true}, {25_000, 75_000, true}, {125_000, 300_000, true}, {125_000, 225_000, false}, {490_000, 500_000, false},
	} {
		r := prometheus.NewRegistry()
		s := newStand(t, Options{Memory: tt.memory, Registerer: r})
		seg := s.putSegment(&writer{chunk: tt.chunk, keyID: "k1", key: testKey()}, log)
		var most int64
		var mu sync.Mutex
		s.faults.Inject(faultstore.Rule{Op: faultstore.Get, Fault: faultstore.Fault{Do: func() {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, s.space.inUse())
		}}})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range 6 {
					from := random.Int64N(seg.Size)
					n := random.Int64N(min(seg.Size-from, 150_000)) + 1
					dst := make([]byte, n)
					_, err := s.ReadLog(context.Background(), seg, dst, from)
					if tt.fits {
						if err != nil || !bytes.Equal(dst, log[from:from+n]) {
							t.Errorf("chunks of %d in %d bytes: %d at %d: %v", tt.chunk, tt.memory, n, from, err)
						}
					} else if err != nil && (!isContentError(err) || !strings.Contains(err.Error(), "bytes of memory")) {
						t.Errorf("chunks of %d in %d bytes: %v", tt.chunk, tt.memory, err)
					}
				}
			})
		}
		wg.Wait()
		if most > tt.memory || s.space.inUse() > tt.memory {
			t.Errorf("chunks of %d: %d bytes in use, %d are allowed", tt.chunk, most, tt.memory)
		}
		if !tt.fits {
			s.faults.Reset()
			if _, err := s.ReadLog(t.Context(), seg, make([]byte, 10), 5); !isContentError(err) || s.gets(SuffixLog) > 0 {
				t.Errorf("chunks of %d: %v after %d requests", tt.chunk, err, s.gets(SuffixLog))
			}
		}
		s.checkIdle(t)
		if n, err := testutil.GatherAndCount(r, "coldtap_layout_memory_bytes", "coldtap_layout_chunks_opened_total"); err != nil || n != 2 {
			t.Errorf("%d metrics, %v", n, err)
		}
	}
}

// checkIdle finds buffers and chunks that were not given back.
func (s *stand) checkIdle(t *testing.T) {
	t.Helper()
	w := s.space
	w.mu.Lock()
	defer w.mu.Unlock()
	var n int64
	for class, have := range w.free {
		for _, b := range have {
			if cap(b) != class {
				t.Errorf("a buffer of %d among those of %d", cap(b), class)
			}
			n += int64(cap(b))
		}
	}
	for _, c := range w.open {
		if c.readers != 0 || c.element == nil {
			t.Errorf("chunk %d has %d readers", c.key.chunk, c.readers)
		}
		n += int64(cap(c.bytes))
	}
	if n := w.opening.LenLocked(); n != 0 {
		t.Errorf("%d chunks are being opened", n)
	}
	if n != w.used || w.queue.Len() != 0 || w.idle.Len() != len(w.open) {
		t.Errorf("%d bytes are counted, %d are there; %d reads wait; %d of %d chunks are idle", w.used, n, w.queue.Len(), w.idle.Len(), len(w.open))
	}
	if len(s.opener.decoders) != cap(s.opener.decoders) {
		t.Error("a decoder did not come back")
	}
}

// A chunk that was damaged, cut or taken from another place is an error naming the object, and other chunks are served.
func TestDamagedChunkIsNeverServed(t *testing.T) {
	log := testLog(30_000)
	for name, w := range writers(10_000) {
		if name == "plain" {
			continue
		}
		s := newStand(t, Options{})
		seg := s.putSegment(w, log)
		key := mainPath(seg) + SuffixLog
		b := s.Bytes(key)
		m, err := ParseManifest(s.Bytes(mainPath(seg) + SuffixManifest))
		if err != nil {
			t.Fatal(err)
		}
		from, to := m.chunks.span(1, 1)
		b[from+2] ^= 1 // the frame's magic or the nonce
		b[(from+to)/2] ^= 1
		s.Set(key, b)
		for _, r := range [][2]int64{{10_000, 20_000}, {10_000, 10_001}, {0, 30_000}, {15_000, 25_000}} {
			_, err := s.ReadLog(t.Context(), seg, make([]byte, r[1]-r[0]), r[0])
			if e, ok := errors.AsType[*layout.Error](err); !ok || e.Object != key || !strings.Contains(err.Error(), "chunk 1") {
				t.Errorf("%s: bytes %d to %d: %v", name, r[0], r[1], err)
			}
		}
		mustRead(t, s, seg, log, 0, 10_000)
		mustRead(t, s, seg, log, 20_000, 30_000)
		s.checkIdle(t)
	}
}

func TestLogOfAnotherLength(t *testing.T) {
	log := testLog(30_000)
	for name, w := range writers(10_000) {
		s := newStand(t, Options{})
		seg := s.putSegment(w, log)
		key := mainPath(seg) + SuffixLog
		b := s.Bytes(key)
		for _, other := range [][]byte{b[:len(b)-1], append(slices.Clone(b), 0), {}} {
			s.Set(key, other)
			if _, err := s.ReadLog(t.Context(), seg, make([]byte, 1000), 0); err == nil {
				t.Errorf("%s: a log of %d instead of %d bytes was read", name, len(other), len(b))
			}
		}
	}
}

func TestOneVersion(t *testing.T) {
	log := testLog(30_000)
	for name, w := range writers(10_000) {
		s := newStand(t, Options{})
		seg := s.putSegment(w, log)
		key := mainPath(seg) + SuffixLog
		mustRead(t, s, seg, log, 0, 1000)
		mustRead(t, s, seg, log, 15_000, 15_001)
		s.Set(key, s.Bytes(key))
		if _, err := s.ReadLog(t.Context(), seg, make([]byte, 1000), 25_000); !rangeio.IsKind(err, rangeio.Changed) {
			t.Errorf("%s: an overwritten object: %v", name, err)
		}
		if n := len(s.space.open); n != 0 {
			t.Errorf("%s: %d chunks of the old version are still open", name, n)
		}
		mustRead(t, s, seg, log, 25_000, 25_100)
		s.checkIdle(t)
	}
}

func TestDeletedSegment(t *testing.T) {
	log := testLog(30_000)
	s := newStand(t, Options{})
	seg := s.putSegment(writers(10_000)["both"], log)
	mustRead(t, s, seg, log, 0, 1000)
	for _, suffix := range []string{SuffixLog, SuffixIndexes, SuffixManifest} {
		if err := s.Delete(t.Context(), mainPath(seg)+suffix); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := s.ReadLog(t.Context(), seg, make([]byte, 1000), 15_000); !rangeio.IsKind(err, rangeio.NotFound) {
			t.Errorf("log: %v", err)
		}
		if _, _, err := s.ReadFiles(t.Context(), seg); !rangeio.IsKind(err, rangeio.NotFound) || !strings.Contains(err.Error(), "Iceberg") {
			t.Errorf("files: %v", err)
		}
	}
}

func TestEmptyLog(t *testing.T) {
	for name, w := range writers(1000) {
		s := newStand(t, Options{})
		seg := s.putSegment(w, nil)
		if cost, err := s.ReadLog(t.Context(), seg, nil, 0); err != nil || cost.Requests != 0 {
			t.Errorf("%s: %+v, %v", name, cost, err)
		}
		if _, _, err := s.ReadFiles(t.Context(), seg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reader that leaves while it opens a chunk must not take the others with it, and what it fails with is not theirs.
func TestWaitersOutliveTheOpener(t *testing.T) {
	log := testLog(1_000_000)
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Parallel: 1})
		seg := s.putSegment(&writer{chunk: 500_000, keyID: "k1", key: testKey()}, log)
		mustRead(t, s, seg, log, 600_000, 600_001)
		gate := make(chan struct{})
		s.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(SuffixLog), Times: 1, Fault: faultstore.Fault{Block: gate}})
		ctx, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := s.ReadLog(ctx, seg, make([]byte, 1000), 1000)
			first <- err
		}()
		synctest.Wait()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { mustRead(t, s, seg, log, int64(i)*1000, int64(i)*1000+500) })
		}
		synctest.Wait()
		leave()
		if err := <-first; !rangeio.IsKind(err, rangeio.Canceled) && !errors.Is(err, context.Canceled) {
			t.Errorf("who left has %v", err)
		}
		wg.Wait()
		if n := s.gets(SuffixLog); n != 3 {
			t.Errorf("%d requests, want one of the first reader, the one that was cancelled, and one for all others", n)
		}
		s.checkIdle(t)
	})
}

// Store errors reach everybody who waits for the chunk, and the next read tries again.
func TestStoreErrorIsNotKept(t *testing.T) {
	log := testLog(100_000)
	for _, suffix := range []string{SuffixLog, SuffixManifest} {
		s := newStand(t, Options{})
		seg := s.putSegment(&writer{chunk: 50_000, compressed: true}, log)
		s.faults.Inject(faultstore.Rule{Op: faultstore.Get, Key: faultstore.Suffix(suffix), Times: 1, Fault: faultstore.Fault{Kind: rangeio.Throttled}})
		if cost, err := s.ReadLog(t.Context(), seg, make([]byte, 10), 0); !rangeio.IsKind(err, rangeio.Throttled) || cost.Requests == 0 {
			t.Errorf("%s: %+v, %v", suffix, cost, err)
		}
		mustRead(t, s, seg, log, 0, 10)
		s.checkIdle(t)
	}
}

// One manifest for a herd, and one GET for the chunk that all of them want.
func TestHerd(t *testing.T) {
	log := testLog(100_000)
	s := newStand(t, Options{})
	seg := s.putSegment(writers(60_000)["both"], log)
	var wg sync.WaitGroup
	var mu sync.Mutex
	requests := 0
	for i := range 50 {
		wg.Go(func() {
			dst := make([]byte, 1000)
			cost, err := s.ReadLog(context.Background(), seg, dst, int64(i)*1000)
			if err != nil || !bytes.Equal(dst, log[i*1000:(i+1)*1000]) {
				t.Errorf("%v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			requests += cost.Requests
		})
	}
	wg.Wait()
	if s.gets(SuffixManifest) != 1 || s.gets(SuffixLog) != 1 || requests != 2 {
		t.Errorf("%d requests for the manifest, %d for the log, %d in the bills", s.gets(SuffixManifest), s.gets(SuffixLog), requests)
	}
}
