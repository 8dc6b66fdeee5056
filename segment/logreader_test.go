package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// tiledLog is a log of copies of one batch, each at the next offset: the offset is outside the CRC.
type tiledLog struct {
	batch  []byte
	left   int
	next   int64
	unread []byte
	most   int // the largest read
}

func (x *tiledLog) Read(p []byte) (int, error) {
	x.most = max(x.most, len(p))
	if len(x.unread) == 0 {
		if x.left == 0 {
			return 0, io.EOF
		}
		x.left--
		binary.BigEndian.PutUint64(x.batch, uint64(x.next))
		x.next += 10
		x.unread = x.batch
	}
	n := copy(p, x.unread)
	x.unread = x.unread[n:]
	return n, nil
}

func TestALongLogPassesThroughOneBuffer(t *testing.T) {
	batch := plainBatch(0, 10)
	const copies = 200_000
	x := &tiledLog{batch: batch, left: copies}
	r := NewLogReader(x, copies*int64(len(batch)), 64<<20)
	n := int64(0)
	taken := allocated(func() {
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil || e.CRCError != nil || e.BaseOffset != 10*n || len(e.Bytes) != len(batch) {
				t.Fatalf("batch %d: %+v, %v", n, e, err)
			}
			n++
		}
	})
	if n != copies || x.most > logBuffer || len(r.buffer) != logBuffer || r.Position() != copies*int64(len(batch)) {
		t.Errorf("%d batches; %d bytes at a time, a buffer of %d", n, x.most, len(r.buffer))
	}
	if taken > 64<<10 {
		t.Errorf("%d KiB were allocated on the way", taken>>10)
	}
}

func TestEntriesLargerThanTheBuffer(t *testing.T) {
	large := buildMessage(1, 10, 0, 0, nil, bytes.Repeat([]byte("0123456789"), 350_000)) // 3.5 MB
	log := slices.Concat(plainBatch(0, 10), large, plainBatch(11, 1))
	for _, tt := range []struct {
		whole int64
		kept  bool
		most  int
	}{{64 << 20, true, len(large)}, {int64(len(large)), true, len(large)}, {int64(len(large)) - 1, false, logBuffer}, {100, false, logBuffer}} {
		for damaged := range 2 {
			spoiled := bytes.Clone(log)
			spoiled[len(log)-200] ^= byte(damaged)
			r := NewLogReader(bytes.NewReader(spoiled), int64(len(log)), tt.whole)
			var got []LogEntry
			for e, err := r.Next(); err != io.EOF; e, err = r.Next() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
			if len(got) != 3 || (got[1].Bytes != nil) != tt.kept || (got[1].CRCError != nil) != (damaged == 1) || got[0].CRCError != nil || got[2].CRCError != nil {
				t.Errorf("whole %d, damaged %d: %d entries, %v", tt.whole, damaged, len(got), got[1].CRCError)
			}
			if len(r.buffer) > tt.most {
				t.Errorf("whole %d: a buffer of %d bytes", tt.whole, len(r.buffer))
			}
		}
	}
}

func TestReadsOfALogThatFail(t *testing.T) {
	log := slices.Concat(plainBatch(0, 10), plainBatch(10, 10))
	first := len(plainBatch(0, 10))
	disk := errors.New("disk")
	for name, tt := range map[string]struct {
		in   io.Reader
		want error
	}{
		"cut in the header":  {bytes.NewReader(log[:first+5]), io.ErrUnexpectedEOF},
		"cut in the batch":   {bytes.NewReader(log[:len(log)-1]), io.ErrUnexpectedEOF},
		"cut between two":    {bytes.NewReader(log[:first]), io.ErrUnexpectedEOF},
		"an error of a disk": {io.MultiReader(bytes.NewReader(log[:first]), iotest.ErrReader(disk)), disk},
	} {
		r := NewLogReader(tt.in, int64(len(log)), 1<<20)
		if _, err := r.Next(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Next(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := NewLogReader(bytes.NewReader(log), int64(first)+20, 1<<20)
	r.Next()
	if p, err := r.Peek(8); err != nil || binary.BigEndian.Uint64(p) != 10 {
		t.Errorf("%x, %v", p, err)
	}
	_, err := r.Next()
	wantKind(t, err, Truncated)
	if e := err.(*Error); e.Position != int64(first) {
		t.Errorf("at byte %d", e.Position)
	}
	if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, log[first:first+20]) {
		t.Errorf("%d bytes are left, %v", len(rest), err)
	}
}

// FuzzLogReader compares it with Batches, whatever pieces the log comes in and however small the buffer is.
func FuzzLogReader(f *testing.F) {
	f.Add(slices.Concat(plainBatch(0, 3), buildMessage(1, 3, 0, 0, nil, []byte("value-3")), plainBatch(4, 2)), uint16(100), uint16(7))
	f.Add(append(plainBatch(3, 1), make([]byte, 80)...), uint16(0), uint16(1))
	f.Add(plainBatch(3, 1)[:70], uint16(70), uint16(100))
	f.Fuzz(func(t *testing.T, log []byte, whole, piece uint16) {
		in := &pieces{bytes.NewReader(log), int(piece)%200 + 1}
		r := NewLogReader(in, int64(len(log)), int64(whole))
		r.buffer = r.buffer[:min(len(r.buffer), 64)]
		for b, want := range Batches(log) {
			e, err := r.Next()
			if (err == nil) != (want == nil) || e.Position != b.Position {
				t.Fatalf("at byte %d: %v, want %v", b.Position, err, want)
			}
			if err != nil {
				// A length beyond the end of the log is seen before what is wrong further on in the header.
				if kind := err.(*Error).Kind; kind != want.(*Error).Kind && kind != Truncated {
					t.Fatalf("%v, want %v", err, want)
				}
				if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, log[b.Position:]) {
					t.Fatalf("%d bytes are left of %d, %v", len(rest), len(log)-int(b.Position), err)
				}
				return
			}
			large := b.Header.Size() > int64(whole)
			if e.Header != b.Header || large != (e.Bytes == nil) || !large && !bytes.Equal(e.Bytes, b.Bytes) {
				t.Fatalf("%+v, want %+v", e, b.Header)
			}
			if bad := VerifyCRC(&b.Header, b.Bytes); (bad == nil) != (e.CRCError == nil) {
				t.Fatalf("%v, want %v", e.CRCError, bad)
			}
		}
		if _, err := r.Next(); err != io.EOF || r.Position() != int64(len(log)) || len(r.buffer) > max(HeaderSize+3, int(whole)) {
			t.Fatalf("%v at byte %d of %d, a buffer of %d", err, r.Position(), len(log), len(r.buffer))
		}
	})
}

// pieces gives a log in pieces of at most so many bytes.
type pieces struct {
	in   io.Reader
	most int
}

func (p *pieces) Read(b []byte) (int, error) { return p.in.Read(b[:min(len(b), p.most)]) }
