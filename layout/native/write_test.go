package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
)

func TestOrderOfWritesAndDeletes(t *testing.T) {
	seg, log, files := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	for range 2 { // the second one is the copier that came back
		if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Delete(t.Context(), seg); err != nil {
		t.Fatal(err)
	}
	logKey, metaKey := l.LogKey(seg), l.MetaKey(seg)
	want := []string{"put " + logKey, "put " + metaKey, "put " + logKey, "put " + metaKey, "delete " + metaKey, "delete " + logKey}
	if !slices.Equal(store.steps, want) {
		t.Errorf("steps %q, want %q", store.steps, want)
	}
}

// changingLog is a file that turns into another one at a certain read.
type changingLog struct {
	bytes  []byte
	size   int64
	after  int // reads that give the first bytes
	change func(b []byte) []byte
	err    error

	mu    sync.Mutex
	reads int
}

func (l *changingLog) Size() int64 { return l.size }

func (l *changingLog) ReadAt(p []byte, off int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.reads == l.after+1 {
		if l.err != nil {
			return 0, l.err
		}
		l.bytes = l.change(slices.Clone(l.bytes))
	}
	return bytes.NewReader(l.bytes).ReadAt(p, off)
}

// TestSourceChanges: what reaches the store must be what the caller has checked, and an incomplete copy must not look
// like one.
func TestSourceChanges(t *testing.T) {
	seg, log, files := realSegment(t)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	shrink := func(b []byte) []byte { return b[:len(b)*6/10] }
	broken := errors.New("input/output error")
	tests := []struct {
		name string
		log  *changingLog
		sum  string
		want error
	}{
		{"other size", &changingLog{size: seg.Size + 1}, sha(log), ErrSourceChanged},
		{"other sum", &changingLog{after: 1 << 30}, sha(log[1:]), ErrSourceChanged},
		{"changed before the copy", &changingLog{change: flip}, sha(log), ErrSourceChanged},
		{"shrunk before the copy", &changingLog{change: shrink}, sha(log), ErrSourceChanged},
		{"changed during the copy", &changingLog{after: 1, change: flip}, sha(log), ErrSourceChanged},
		{"shrunk during the copy", &changingLog{after: 1, change: shrink}, sha(log), ErrSourceChanged},
		{"unreadable", &changingLog{err: broken}, sha(log), broken},
		{"unreadable during the copy", &changingLog{after: 1, err: broken}, sha(log), broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemoryStore()
			l := newTestLayout(store, "")
			tt.log.bytes = log
			if tt.log.size == 0 {
				tt.log.size = seg.Size
			}
			err := l.Put(t.Context(), "cluster", seg, tt.log, tt.sum, files)
			var e *layout.Error
			if !errors.As(err, &e) || !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if len(store.objects) > 0 {
				t.Errorf("the store holds %v", store.steps)
			}
		})
	}
}

// TestStoreThatSwallowsErrors completes a truncated object when its source fails, as some clients of S3 did.
func TestStoreThatSwallowsErrors(t *testing.T) {
	seg, log, files := realSegment(t)
	inner := newMemoryStore()
	l := newTestLayout(inner, "")
	l.store = swallowingStore{l.store, inner}
	source := &changingLog{bytes: log, size: seg.Size, after: 1, err: io.ErrClosedPipe}
	if err := l.Put(t.Context(), "cluster", seg, source, sha(log), files); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want the source's error", err)
	}
	if inner.objects[l.MetaKey(seg)] != nil {
		t.Error("a .meta was written beside a truncated log")
	}
}

type swallowingStore struct {
	store
	inner *memoryStore
}

func (s swallowingStore) Put(_ context.Context, key string, c rangeio.Content) (rangeio.Info, error) {
	b, _ := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	s.inner.write(key, b)
	return rangeio.Info{Size: c.Size()}, nil
}

func TestStoreFailsDuringPut(t *testing.T) {
	seg, log, files := realSegment(t)
	keys := newTestLayout(newMemoryStore(), "")
	full := &rangeio.Error{Kind: rangeio.Full, Op: "put"}
	tests := []struct {
		name  string
		spoil func(*memoryStore)
		want  func(error) bool
		left  int // objects that may be there
	}{
		{"log refused", func(s *memoryStore) {
			s.putFault = func(string) error { return full }
		}, func(err error) bool { return rangeio.IsKind(err, rangeio.Full) }, 0},
		{"meta refused", func(s *memoryStore) {
			s.putFault = func(key string) error {
				if key == keys.MetaKey(seg) {
					return full
				}
				return nil
			}
		}, func(err error) bool { return rangeio.IsKind(err, rangeio.Full) }, 1},
		{"log cut by the store", func(s *memoryStore) {
			s.cut = func(_ string, b []byte) []byte { return b[:len(b)-1] }
		}, isLayoutError, 1},
		{"meta cut by the store", func(s *memoryStore) {
			s.cut = func(key string, b []byte) []byte {
				if key == keys.MetaKey(seg) {
					return b[:len(b)-1]
				}
				return b
			}
		}, isLayoutError, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemoryStore()
			tt.spoil(store)
			l := newTestLayout(store, "")
			if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); !tt.want(err) {
				t.Errorf("got %v", err)
			}
			if len(store.objects) != tt.left {
				t.Errorf("%d objects are left, want %d", len(store.objects), tt.left)
			}
			store.putFault, store.cut = nil, nil
			if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
				t.Errorf("the attempt after: %v", err)
			}
			if got, _, err := l.ReadFiles(t.Context(), seg); err != nil || !sameFiles(got, files) {
				t.Errorf("read back: %v", err)
			}
		})
	}
}

func isLayoutError(err error) bool {
	var e *layout.Error
	return errors.As(err, &e)
}

func TestPutOfSenselessFiles(t *testing.T) {
	seg, log, files := realSegment(t)
	store := newMemoryStore()
	l := newTestLayout(store, "")
	damaged := *files
	damaged.TxnDamaged = true
	if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), &damaged); !isLayoutError(err) {
		t.Errorf("damaged transactions: %v", err)
	}
	if len(store.steps) > 0 {
		t.Errorf("the log was sent for nothing: %v", store.steps)
	}
}

func TestPutStopsWithContext(t *testing.T) {
	seg, log, files := realSegment(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newTestLayout(newMemoryStore(), "").Put(ctx, "cluster", seg, bytes.NewReader(log), sha(log), files); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCheckedLogReads reads like clients of object stores do: in parts, out of order, with any buffer, at once.
func TestCheckedLogReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{0, 1, checkBlock - 1, checkBlock, checkBlock + 1, 2*checkBlock - 100, checkRead, 3*checkRead + 5} {
		log := make([]byte, size)
		for i := range log {
			log[i] = byte(r.Uint32())
		}
		c, err := checkLog(t.Context(), bytes.NewReader(log), int64(size), sha(log))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for seed := range uint64(4) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 2))
				for range 50 {
					off, n := r.Int64N(int64(size)+2), r.IntN(2*checkBlock)
					want := make([]byte, n)
					wantN, wantErr := bytes.NewReader(log).ReadAt(want, off)
					got := make([]byte, n)
					gotN, gotErr := c.ReadAt(got, off)
					if gotN != wantN || !bytes.Equal(got, want) || n > 0 && gotErr != wantErr {
						t.Errorf("%d bytes at %d of %d: %d, %v, want %d, %v", n, off, size, gotN, gotErr, wantN, wantErr)
					}
				}
			})
		}
		wg.Wait()
		if b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size())); err != nil || !bytes.Equal(b, log) {
			t.Errorf("size %d read as a whole: %v", size, err)
		}
	}
}

// TestCheckedLogNeverVouchesForOtherBytes flips one bit anywhere: no read that contains it may succeed, nor any after.
func TestCheckedLogNeverVouchesForOtherBytes(t *testing.T) {
	log := bytes.Repeat([]byte("coldtap"), 20_000)
	for _, at := range []int{0, checkBlock - 1, checkBlock, len(log) - 1} {
		source := &changingLog{bytes: log, size: int64(len(log)), after: 1, change: func(b []byte) []byte { b[at] ^= 1; return b }}
		c, err := checkLog(t.Context(), source, source.size, sha(log))
		if err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf("at byte %d", at/checkBlock*checkBlock)
		if _, err := c.ReadAt(make([]byte, 1), int64(at)); !errors.Is(err, ErrSourceChanged) || !strings.HasSuffix(err.Error(), where) {
			t.Errorf("byte %d: %v", at, err)
		}
		if _, err := c.ReadAt(make([]byte, 1), 60_000); !errors.Is(err, ErrSourceChanged) {
			t.Errorf("a later read: %v", err)
		}
	}
}

func TestCheckedLogThatWasCut(t *testing.T) {
	log := bytes.Repeat([]byte("coldtap"), 20_000)
	source := &changingLog{bytes: log, size: int64(len(log)), after: 1, change: func(b []byte) []byte { return b[:checkBlock+7] }}
	c, err := checkLog(t.Context(), source, source.size, sha(log))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("it ends at byte %d, expected are %d", checkBlock+7, len(log))
	if _, err := c.ReadAt(make([]byte, 1), checkBlock+3); !errors.Is(err, ErrSourceChanged) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// TestUnknown: a segment counts that the store holds whole and the metadata lacks.
func TestUnknown(t *testing.T) {
	seg, log, files := realSegment(t)
	nothing := func(layout.Name) bool { return false }
	for name, tt := range map[string]struct {
		change func(s *memoryStore, l *Layout)
		known  func(layout.Name) bool
		found  bool
	}{
		"whole":            {func(*memoryStore, *Layout) {}, nothing, true},
		"known":            {func(*memoryStore, *Layout) {}, func(n layout.Name) bool { return n.ID == seg.ID && n.BaseOffset == seg.BaseOffset }, false},
		"without its log":  {func(s *memoryStore, l *Layout) { s.Delete(t.Context(), l.LogKey(seg)) }, nothing, false},
		"without its meta": {func(s *memoryStore, l *Layout) { s.Delete(t.Context(), l.MetaKey(seg)) }, nothing, false},
		"a shorter log":    {func(s *memoryStore, l *Layout) { s.write(l.LogKey(seg), log[1:]) }, nothing, false},
		"a damaged meta":   {func(s *memoryStore, l *Layout) { s.write(l.MetaKey(seg), []byte("no manifest")) }, nothing, false},
	} {
		s := newMemoryStore()
		l := newTestLayout(s, "")
		if err := l.Put(t.Context(), "cluster", seg, bytes.NewReader(log), sha(log), files); err != nil {
			t.Fatal(err)
		}
		tt.change(s, l)
		got, err := l.Unknown(t.Context(), seg.Topic, seg.Partition, tt.known)
		if err != nil || (got != nil) != tt.found || got != nil && got.ID != seg.ID {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	s := newMemoryStore()
	s.listFault = &rangeio.Error{Kind: rangeio.Forbidden, Op: "list"}
	if got, err := newTestLayout(s, "").Unknown(t.Context(), seg.Topic, seg.Partition, nothing); got != nil || !rangeio.IsKind(err, rangeio.Forbidden) {
		t.Errorf("a listing that is denied: %+v, %v", got, err)
	}
}

func TestStartsThatAreNotWritten(t *testing.T) {
	store := newMemoryStore()
	l := newTestLayout(store, "")
	start := &Start{Topic: "t", TopicID: segment.UUID{1}}
	raw, err := EncodeStart(start)
	if err != nil {
		t.Fatal(err)
	}
	for over := range 2 {
		start.ClusterID = strings.Repeat("x", maxStart-len(raw)+over)
		if b, err := EncodeStart(start); (err == nil) != (over == 0) || err == nil && len(b) != maxStart {
			t.Errorf("%d bytes more than are allowed: %d, %v", over, len(b), err)
		}
	}
	start.ClusterID = ""
	store.putFault = func(string) error { return &rangeio.Error{Kind: rangeio.Forbidden, Op: "put"} }
	if err := l.PutStart(t.Context(), start); !rangeio.IsKind(err, rangeio.Forbidden) {
		t.Errorf("%v", err)
	}
}
