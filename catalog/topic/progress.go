package topic

import (
	"context"
	"slices"
	"sync"
	"time"
)

// progress is how far the view has come, for those who wait for it or ask about it.
type progress struct {
	mu        sync.Mutex
	positions []int64     // by metadata partition: the next offset that the view does not hold; nil before the first answer
	ends      []int64     // as the newest answers said
	asOf      []time.Time // when the view last held all that its partition had; zero = never
	records   int64
	trouble   error         // of the newest attempt, nil when it went well
	changed   chan struct{} // closed at the next change
}

func newProgress() *progress { return &progress{changed: make(chan struct{})} }

// begin sets out from positions towards the ends that the topic had then; none forget all.
func (p *progress) begin(positions, ends []int64, then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions, p.ends = slices.Clone(positions), slices.Clone(ends)
	p.asOf = slices.Grow(p.asOf[:0], len(positions))
	for i := range positions {
		p.asOf = append(p.asOf, time.Time{})
		if positions[i] >= ends[i] {
			p.asOf[i] = then
		}
	}
	p.notify()
}

func (p *progress) applied(list []digest, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		d := &list[i]
		p.positions[d.partition], p.ends[d.partition] = d.next, d.end
		p.records += int64(d.records)
		if d.next >= d.end {
			p.asOf[d.partition] = at
		}
	}
	p.notify()
}

// failed keeps how the newest attempt went, and gives how the one before did.
func (p *progress) failed(err error) (before error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.trouble = p.trouble, err
	return before
}

func (p *progress) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// reach waits until the view holds everything below ends.
func (p *progress) reach(ctx context.Context, ends []int64) error {
	for {
		p.mu.Lock()
		there, changed := reached(p.positions, ends), p.changed
		p.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func reached(positions, ends []int64) bool {
	if len(positions) < len(ends) {
		return false
	}
	for i, end := range ends {
		if positions[i] < end {
			return false
		}
	}
	return true
}

// Status is how current the view is.
type Status struct {
	Partitions int       // of the metadata topic, 0 while unknown
	Records    int64     // read since Open
	Lag        int64     // records that the topic is known to hold beyond the view
	AsOf       time.Time // the view holds all that the metadata topic held then; zero = not caught up yet
	ClusterAt  time.Time // when the cluster told the bounds that the view has; zero = never
	Trouble    error     // what keeps the view from getting newer, nil = nothing
}

func (p *progress) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Partitions: len(p.positions), Records: p.records, Trouble: p.trouble}
	for i, at := range p.asOf {
		s.Lag += max(0, p.ends[i]-p.positions[i])
		if i == 0 || at.Before(s.AsOf) {
			s.AsOf = at
		}
	}
	return s
}
