package fetch

import (
	"context"
	"testing"

	"coldtap/segment"
)

// planned is a harness of three segments of ten records, each in a batch of 1,000 bytes; chunks have 4,096.
func planned(t *testing.T) *harness {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	for n := range int64(3) {
		var log []byte
		var index []int64
		for o := 10 * n; o < 10*n+10; o++ {
			if o > 10*n {
				index = append(index, o, int64(len(log)))
			}
			log = append(log, one(o, 1000*o, 1000)...)
		}
		s.add(stored{base: 10 * n, end: 10*n + 9, log: log, files: segment.Files{OffsetIndex: offsetIndex(10*n, index...), Decided: n != 2, Snapshot: snapshotOf(1, 25)}})
	}
	return s
}

func TestPlanTellsWhatTheReadTakes(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           func(*Request)
		segments, chunks int
		bytes            int64
	}{
		{"all", func(*Request) {}, 3, 9, 30_000},
		{"the last two records of the first segment", func(r *Request) { r.Offset, r.EndOffset = 8, 10 }, 1, 2, 2000},
		{"up to a byte limit", func(r *Request) { r.MaxBytes = 14_000 }, 2, 4, 14_000},
		{"two records over a border", func(r *Request) { r.Offset, r.MaxRecords = 9, 2 }, 2, 2, 2000},
		{"nothing", func(r *Request) { r.Start = FromLatest }, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := planned(t)
			r := from(0)
			c.change(r)
			p, err := s.Plan(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			if n := s.logGets(); n != 0 {
				t.Errorf("planning read %d chunks", n)
			}
			missing, bytes := 0, int64(0)
			for _, part := range p.Segments {
				missing += part.Missing
				bytes += part.To - part.From
				if part.InMemory != 0 || int64(part.Missing) != part.LastChunk-part.FirstChunk+1 {
					t.Errorf("%+v", part)
				}
			}
			if len(p.Segments) != c.segments || missing != c.chunks || bytes != c.bytes || p.Cut {
				t.Errorf("%d segments, %d chunks, %d bytes: %+v", len(p.Segments), missing, bytes, p)
			}
			a := s.raw(r)
			if a.err != nil || s.logGets() != missing {
				t.Errorf("the read took %d GETs, %v", s.logGets(), a.err)
			}
			p, err = s.Plan(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range p.Segments {
				if part.Missing != 0 || part.Requests != 0 || part.Bytes != 0 {
					t.Errorf("after the read: %+v", part)
				}
			}
		})
	}
	s := planned(t)
	if _, err := s.Plan(context.Background(), from(31)); kindOf(err) != OutOfRange {
		t.Errorf("beyond the end: %v", err)
	}
}

func TestSettledOnlyWithAnEndInDecidedSegments(t *testing.T) {
	for _, c := range []struct {
		name    string
		request *Request
		change  func(*Request)
		want    int // segments; 0 = not settled
	}{
		{"no end", from(0), func(*Request) {}, 0},
		{"in one segment", from(0), func(r *Request) { r.EndOffset = 10 }, 1},
		{"over a border", from(5), func(r *Request) { r.EndOffset = 11 }, 2},
		{"to the tiered end, uncommitted", from(0), func(r *Request) { r.EndOffset = 30 }, 3},
		{"beyond the tiered end", from(0), func(r *Request) { r.EndOffset = 31 }, 0},
		{"committed", committed(0), func(r *Request) { r.EndOffset = 20 }, 2},
		{"committed, up to an open transaction", committed(0), func(r *Request) { r.EndOffset = 25 }, 3},
		{"committed, into an open transaction", committed(0), func(r *Request) { r.EndOffset = 26 }, 0},
		{"committed, into an open transaction from within", committed(22), func(r *Request) { r.EndOffset = 26 }, 0},
		{"empty", from(5), func(r *Request) { r.EndOffset = 5 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := planned(t)
			c.change(c.request)
			st, err := s.Open(context.Background(), c.request)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			ids, ok := st.Settled(context.Background(), nil)
			if ok != (c.want > 0) || ok && len(ids) != c.want {
				t.Errorf("%v, %d segments", ok, len(ids))
			}
		})
	}
}

// A plan over years of history is cut, and says so, instead of growing without end.
func TestPlanListsAtMostAThousandSegments(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	for o := range int64(maxPlanned + 2) {
		s.add(stored{base: o, end: o, log: one(o, 1000, 100)})
	}
	for from0, want := range map[int64]int{0: maxPlanned, 2: maxPlanned, 3: maxPlanned - 1} {
		p, err := s.Plan(t.Context(), from(from0))
		if err != nil || len(p.Segments) != want || p.Cut != (from0 < 2) {
			t.Errorf("from %d: %d segments, cut %v, %v", from0, len(p.Segments), p.Cut, err)
		}
	}
}
