package kafka

import (
	"context"
	"slices"
	"sync"
	"time"

	"coldtap/tier"
)

// progress is how far the view has come, for calls that wait for it and for Status.
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

// restart begins at positions, towards the ends that the topic had then; nil: nothing is known any more.
func (p *progress) restart(positions, ends []int64, then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions, p.ends = slices.Clone(positions), slices.Clone(ends)
	before := p.asOf
	p.asOf = make([]time.Time, len(positions))
	copy(p.asOf, before)
	for i := range positions {
		switch {
		case positions[i] >= ends[i]:
			p.asOf[i] = then
		case len(before) > 0 && i >= len(before):
			// A partition that the topic has got while it was followed: it was not there when that was last looked at.
			p.asOf[i] = then.Add(-relocateEvery)
		}
	}
	p.notify()
}

// complete says that everything below the ends of restart is in the view.
func (p *progress) complete(then time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.asOf {
		if p.asOf[i].Before(then) {
			p.asOf[i] = then
		}
	}
}

func (p *progress) applied(list []digest, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		d := &list[i]
		p.positions[d.partition], p.ends[d.partition] = d.next.offset, d.end
		p.records += int64(d.records)
		if d.next.offset >= d.end {
			p.asOf[d.partition] = at
		}
	}
	p.notify()
}

// failed keeps how the newest attempt went.
func (p *progress) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = err
}

func (p *progress) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// reach waits until the view holds everything below ends. It gives the partitions of which it does not when ctx ends.
func (p *progress) reach(ctx context.Context, ends []int64) (behind []int32) {
	for {
		p.mu.Lock()
		behind = behind[:0]
		for i, end := range ends {
			if end >= 0 && (i >= len(p.positions) || p.positions[i] < end) {
				behind = append(behind, int32(i))
			}
		}
		changed := p.changed
		p.mu.Unlock()
		if len(behind) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return behind
		}
	}
}

// heldSince says that at some time after least the view held all of the metadata partition that has a partition's
// records.
func (p *progress) heldSince(of tier.PartitionID, least time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asOf) > 0 && p.asOf[PartitionOf(of, int32(len(p.asOf)))].After(least)
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

// deniedShown bounds Status.Denied.
const deniedShown = 10

// Status is how current the view is.
type Status struct {
	Partitions   int       // of the metadata topic, 0 while unknown
	Records      int64     // read since Open
	Lag          int64     // records that the topic is known to hold beyond the view
	AsOf         time.Time // the view holds all that the metadata topic held then; never zero once the first replay has caught up
	ClusterAt    time.Time // when the requests for the bounds in the view were sent; zero = never
	Denied       []string  // names of topics that the cluster does not let us describe, ascending, the first 10; do not change it
	DeniedTopics int       // how many there are

	Trouble error // what keeps the view from getting newer, nil = nothing
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
