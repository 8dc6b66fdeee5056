package scan

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"testing"

	"coldtap/cache"
	"coldtap/internal/budget"
	"coldtap/internal/readcost"
	"coldtap/readerpool"
	"coldtap/segment"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batch is a sound batch of offsets first to last and of size bytes, whose payload is no records.
func batch(first, last int64, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, uint64(first))
	binary.BigEndian.PutUint32(b[8:], uint32(size-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(last-first))
	binary.BigEndian.PutUint64(b[27:], 1000)
	binary.BigEndian.PutUint64(b[35:], 1000)
	binary.BigEndian.PutUint32(b[57:], uint32(last-first+1))
	for i := segment.HeaderSize; i < size; i++ {
		b[i] = byte(first)
	}
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// memory is a Source over a log in memory.
type memory struct {
	tb      testing.TB
	log     []byte
	chunk   int64
	chunks  *cache.Cache
	damage  func(log []byte) // changes what loads give; nil = nothing
	failing map[int64]error  // by number of a chunk
	single  bool             // there is memory for one chunk only
	index   segment.OffsetIndex
	loads   int
}

func (m *memory) LoadChunk(_ context.Context, off int64, dst []byte, _ readerpool.Lane) (readcost.Cost, error) {
	m.loads++
	log := m.log
	if m.damage != nil {
		log = slices.Clone(log)
		m.damage(log)
	}
	copy(dst, log[off:])
	return readcost.Cost{}, nil
}

func (m *memory) Chunk(ctx context.Context, number int64, holding bool) (*cache.Chunk, error) {
	if holding && m.single {
		return nil, cache.ErrNoSlab
	}
	if err := m.failing[number]; err != nil {
		return nil, err
	}
	off := number * m.chunk
	chunk, _, err := m.chunks.Acquire(ctx, cache.Request{Key: cache.Key{Chunk: int32(number)}, Off: off,
		Len: int(min(m.chunk, int64(len(m.log))-off)), Source: m})
	return chunk, err
}

func (m *memory) Drop(chunk *cache.Chunk)                              { m.chunks.Drop(chunk) }
func (m *memory) Offsets(context.Context) (segment.OffsetIndex, error) { return m.index, nil }

// entries makes an offset index of pairs of an offset and a position.
func entries(tb testing.TB, size int, pairs ...int64) segment.OffsetIndex {
	var raw []byte
	for i := 0; i < len(pairs); i += 2 {
		raw = binary.BigEndian.AppendUint32(raw, uint32(pairs[i]))
		raw = binary.BigEndian.AppendUint32(raw, uint32(pairs[i+1]))
	}
	x, err := segment.ParseOffsetIndex(raw, 0, int64(size))
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// ten is a log of ten batches of ten offsets and 200 bytes each.
func ten() (log []byte) {
	for n := range int64(10) {
		log = append(log, batch(10*n, 10*n+9, 200)...)
	}
	return log
}

func open(tb testing.TB, m *memory) (*Scanner, Log) {
	tb.Helper()
	var err error
	if m.chunks, err = cache.New(cache.Config{Memory: 100 * m.chunk, Chunk: int(m.chunk)}); err != nil {
		tb.Fatal(err)
	}
	decode := budget.New(1 << 20)
	s := &Scanner{}
	s.Memory.From, s.Memory.Share = decode, decode.General()
	s.Reset(m, slog.New(slog.DiscardHandler))
	tb.Cleanup(func() {
		s.Close()
		if err := m.chunks.Close(context.Background()); err != nil || m.chunks.SlabsInUse() > 0 || decode.InUse() > 0 {
			tb.Errorf("%d chunks and %d bytes of decode memory are held; %v", m.chunks.SlabsInUse(), decode.InUse(), err)
		}
	})
	return s, Log{Base: 0, Last: 99, Size: int64(len(m.log)), Chunk: m.chunk}
}

// read gives the base offsets of what comes, and the error that ends it.
func read(s *Scanner, want Purpose) (bases []int64, err error) {
	for {
		h, err := s.Next(context.Background())
		if err == nil {
			base := h.BaseOffset
			if err = s.Check(context.Background(), want); err == nil {
				bases = append(bases, base)
				s.Advance()
			}
		}
		if err != nil && err != ErrAgain {
			return bases, err
		}
	}
}

func bases(first, last int64) (list []int64) {
	for n := first; n <= last; n += 10 {
		list = append(list, n)
	}
	return list
}

// However the log is cut into chunks, and however much memory there is for them, every batch comes once, in order.
func TestBatchesInOrder(t *testing.T) {
	for chunk := int64(64); chunk < 450; chunk += 7 {
		for _, single := range []bool{false, true} {
			for _, want := range []Purpose{ToPass, ToSend, ToDecode} {
				m := &memory{tb: t, log: ten(), chunk: chunk, single: single}
				s, log := open(t, m)
				s.Seek(log, 0)
				if got, err := read(s, want); err != io.EOF || !slices.Equal(got, bases(0, 90)) {
					t.Fatalf("chunks of %d, %d, single %v: %v, %v", chunk, want, single, got, err)
				}
			}
		}
	}
}

func TestSeek(t *testing.T) {
	log := ten()
	index := entries(t, len(log), 39, 600, 79, 1400)
	for _, tt := range []struct {
		offset, position int64 // -1: not by it
		first            int64
	}{
		{0, -1, 0}, {38, -1, 0}, {39, -1, 30}, {40, -1, 30}, {79, -1, 70}, {99, -1, 70},
		{-1, 0, 0}, {-1, 599, 0}, {-1, 600, 30}, {-1, 1399, 30}, {-1, 1400, 70}, {-1, 1999, 70},
	} {
		s, l := open(t, &memory{tb: t, log: log, chunk: 256})
		l.Offsets = index
		if tt.position >= 0 {
			s.SeekPosition(l, tt.position)
		} else {
			s.Seek(l, tt.offset)
		}
		if got, err := read(s, ToPass); err != io.EOF || !slices.Equal(got, bases(tt.first, 90)) {
			t.Errorf("%+v: %v, %v", tt, got, err)
		}
	}
}

// Positions that are wrong are left for that of the entry before, then for the log's first byte.
func TestWrongIndex(t *testing.T) {
	log := ten()
	for _, tt := range []struct {
		entries   []int64
		offset    int64
		first     int64
		fallbacks int64
	}{
		{[]int64{39, 600, 79, 1401}, 79, 30, 1},
		{[]int64{39, 601, 79, 1401}, 79, 0, 2},
		{[]int64{39, 1000}, 45, 0, 1},
		{[]int64{39, 1000}, 55, 50, 0},
		{[]int64{39, 600, 79, 1800}, 79, 30, 1},
	} {
		s, l := open(t, &memory{tb: t, log: log, chunk: 256})
		l.Offsets = entries(t, len(log), tt.entries...)
		s.Seek(l, tt.offset)
		if got, err := read(s, ToSend); err != io.EOF || !slices.Equal(got, bases(tt.first, 90)) || s.Stats.Fallbacks != tt.fallbacks {
			t.Errorf("%v: %v, %v, %d fallbacks", tt.entries, got, err, s.Stats.Fallbacks)
		}
	}
}

// A batch that fails is read once more. What fails again is an error that leads behind it, but for what lies below the
// target. What is damaged does not stay in the cache.
func TestDamage(t *testing.T) {
	for name, at := range map[string]int{"payload": 900, "offset": 801, "length": 810, "checksum": 818} {
		for _, chunk := range []int64{128, 256, 1 << 10} {
			times := 0
			m := &memory{tb: t, log: ten(), chunk: chunk, index: entries(t, 2000, 59, 1000)}
			m.damage = func(log []byte) {
				if times--; times >= 0 {
					log[at] ^= 0x40
				}
			}
			s, l := open(t, m)
			times = 1000
			s.Seek(l, 0)
			got, err := read(s, ToSend)
			var e *Error
			if !errors.As(err, &e) || e.Kind != Damaged || e.NextOffset != 50 || e.Position != 800 || !slices.Equal(got, bases(0, 30)) {
				t.Errorf("%s, chunks of %d: %v, %v", name, chunk, got, err)
			}
			if s.Stats.StillDamaged != 1 || s.Stats.Healed != 0 {
				t.Errorf("%s, chunks of %d: %+v", name, chunk, s.Stats)
			}
			s.Seek(l, 50)
			if got, err := read(s, ToSend); err != io.EOF || !slices.Equal(got, slices.DeleteFunc(bases(0, 90), func(n int64) bool { return n == 40 })) {
				t.Errorf("%s, chunks of %d, below the target: %v, %v", name, chunk, got, err)
			}
			times = 0
			s.Seek(l, 0)
			if got, err := read(s, ToSend); err != io.EOF || !slices.Equal(got, bases(0, 90)) {
				t.Errorf("%s, chunks of %d, repaired: %v, %v", name, chunk, got, err)
			}
		}
	}
}

// Damage in transit costs a second read, and is counted as healed.
func TestHealed(t *testing.T) {
	m := &memory{tb: t, log: ten(), chunk: 4 << 10}
	m.damage = func(log []byte) {
		if m.loads == 1 {
			log[900] ^= 1
		}
	}
	s, l := open(t, m)
	s.Seek(l, 0)
	if got, err := read(s, ToSend); err != io.EOF || !slices.Equal(got, bases(0, 90)) || m.loads != 2 || s.Stats.Healed != 1 || s.Stats.StillDamaged != 0 {
		t.Errorf("%v, %v after %d loads: %+v", got, err, m.loads, s.Stats)
	}
}

// Bytes that the store does not have are damage, others of a source's errors are handed on.
func TestErrorsOfTheSource(t *testing.T) {
	cause := errors.New("cannot be decrypted")
	m := &memory{tb: t, log: ten(), chunk: 200, index: entries(t, 2000, 59, 1000),
		failing: map[int64]error{4: &Error{Kind: Lost, Err: cause}}}
	s, l := open(t, m)
	s.Seek(l, 0)
	got, err := read(s, ToSend)
	var e *Error
	if !errors.As(err, &e) || e.Kind != Damaged || !errors.Is(err, cause) || e.NextOffset != 50 || !slices.Equal(got, bases(0, 30)) {
		t.Errorf("lost: %v, %v", got, err)
	}
	m.failing[4] = cause
	s.Seek(l, 0)
	if got, err := read(s, ToSend); err != cause || !slices.Equal(got, bases(0, 30)) {
		t.Errorf("failing: %v, %v", got, err)
	}
	delete(m.failing, 4)
	if got, err := read(s, ToSend); err != io.EOF || !slices.Equal(got, bases(40, 90)) {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}

// InSameChunk tells of every batch that lies wholly in the chunk at hand, and pieces give the log's bytes.
func TestPieces(t *testing.T) {
	for _, chunk := range []int64{70, 150, 200, 450, 1000} {
		for _, single := range []bool{false, true} {
			m := &memory{tb: t, log: ten(), chunk: chunk, single: single}
			s, l := open(t, m)
			s.Seek(l, 0)
			at, here := int64(0), 0
			for {
				inside := s.InSameChunk()
				h, err := s.Next(t.Context())
				if err == io.EOF {
					break
				}
				if inside {
					here++
					err = s.CheckHere()
				} else if err == nil {
					err = s.Check(t.Context(), ToSend)
				}
				if err != nil {
					t.Fatal(err)
				}
				end := s.Position() + h.Size()
				if wanted := s.Position()%chunk > 0 && s.Position()/chunk == (end-1)/chunk; inside != wanted && s.Position()%chunk > 0 {
					t.Errorf("chunks of %d: batch at %d: inside %v", chunk, s.Position(), inside)
				}
				for at < end {
					p, err := s.Piece(t.Context(), at)
					if err != nil {
						t.Fatal(err)
					}
					n := min(int64(len(p.Bytes)), end-at)
					if !slices.Equal(p.Bytes[:n], m.log[at:at+n]) {
						t.Errorf("chunks of %d: other bytes at %d", chunk, at)
					}
					at += n
					if p.Chunk != nil {
						p.Chunk.Release()
					}
					s.Memory.Share.Release(p.Reserved)
				}
				s.Advance()
			}
			if at != l.Size || chunk >= 450 && here == 0 {
				t.Errorf("chunks of %d: %d bytes, %d batches without a load", chunk, at, here)
			}
		}
	}
}
