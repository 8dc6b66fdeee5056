package fetch

import (
	"fmt"
	"math"
	"testing"

	"coldtap/tier"
)

// spansOf shows a planner's list: segment, first and last chunk of each.
func spansOf(p *planner) string {
	var list []string
	for _, s := range p.spans {
		list = append(list, fmt.Sprintf("%d:%d-%d", s.Log.Key.Segment.ID[15], s.First, s.Last))
	}
	return fmt.Sprint(list)
}

// The list goes on in the next segment when the reader comes near the end of the last one, and no further than the
// answer is expected to go.
func TestExtend(t *testing.T) {
	s := newHarness(t, shape{chunk: 20_000}) // five chunks a segment, and two are read ahead
	segs := s.plain()
	part, _ := s.tier.Snapshot().Partition(tier.PartitionID{Topic: testTopic})
	endless := goal{end: math.MaxInt64, from: math.MinInt64, until: math.MaxInt64}
	for _, tt := range []struct {
		name   string
		first  int // segment
		pos    int64
		until  int64
		room   int64
		change func(g *goal)
		want   string
	}{
		{"far from the end", 0, 20_000, 100_000, 1 << 40, nil, "[1:1-4]"},
		{"near the end", 0, 40_000, 100_000, 1 << 40, nil, "[1:2-4 2:0-4]"},
		{"at the tier's end", 2, 80_000, 100_000, 1 << 40, nil, "[3:4-4]"},
		{"the answer ends in the segment", 0, 60_000, 75_000, 1 << 40, nil, "[1:3-3]"},
		{"no room", 0, 60_000, 100_000, 40_000, nil, "[1:3-4]"},
		{"little room", 0, 60_000, 100_000, 40_001, nil, "[1:3-4 2:0-4]"},
		{"the answer ends before the next one", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.end = 100 }, "[1:3-4]"},
		{"it ends within the next one", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.end = 150 }, "[1:3-4 2:0-0]"},
		{"it ends behind the next one", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.end = 200 }, "[1:3-4 2:0-4]"},
		{"by time", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.until = plainTime + 99 }, "[1:3-4]"},
		{"by time, in the next one", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.until = plainTime + 100 }, "[1:3-4 2:0-0]"},
		{"over a segment that is too early", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.from = plainTime + 200 }, "[1:3-4 3:0-4]"},
		{"for a search", 0, 60_000, 100_000, 1 << 40, func(g *goal) { g.search = true }, "[1:3-4]"},
	} {
		p := &planner{cfg: &s.cfg, wait: &waiter{}}
		if continues, err := p.startAt(segs[tt.first], tt.pos, tt.until); continues || err != nil {
			t.Fatal(continues, err)
		}
		g := endless
		if tt.change != nil {
			tt.change(&g)
		}
		p.extend(part, tt.pos, tt.room, g)
		if got := spansOf(p); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if p.isDue(tt.pos) || !p.isDue(tt.pos/20_000*20_000+20_000) {
			t.Errorf("%s: the list is to be looked at once a chunk", tt.name)
		}
		p.warm.stop()
	}
}

// A segment that is on the list is read on along it; another one, and a position before the list, begin a list.
func TestStartAt(t *testing.T) {
	s := newHarness(t, shape{chunk: 20_000})
	segs := s.plain()
	part, _ := s.tier.Snapshot().Partition(tier.PartitionID{Topic: testTopic})
	for _, tt := range []struct {
		segment    int
		pos, until int64
		continues  bool
		want       string
	}{
		{0, 60_000, 100_000, true, "[1:3-4 2:0-4]"},
		{0, 99_000, 100_000, true, "[1:3-4 2:0-4]"},
		{0, 59_000, 100_000, false, "[1:2-4]"},
		{1, 0, 30_000, true, "[2:0-1]"},
		{1, 45_000, 100_000, true, "[2:0-4]"},
		{2, 0, 1, false, "[3:0-0]"},
	} {
		p := &planner{cfg: &s.cfg, wait: &waiter{}}
		if _, err := p.startAt(segs[0], 60_000, 100_000); err != nil {
			t.Fatal(err)
		}
		p.extend(part, 60_000, 1<<40, goal{end: math.MaxInt64, from: math.MinInt64, until: math.MaxInt64})
		if continues, err := p.startAt(segs[tt.segment], tt.pos, tt.until); continues != tt.continues || err != nil || spansOf(p) != tt.want {
			t.Errorf("%+v: %v %s %v", tt, continues, spansOf(p), err)
		}
		p.warm.stop()
	}
}
