package readerpool

import (
	"container/list"
	"fmt"
	"iter"
)

// Lane is a class of reads, in falling priority when both wait.
type Lane uint8

const (
	Interactive Lane = iota // a client waits; index loads too
	Bulk                    // backfills
	Ahead                   // read-ahead, which no client waits for yet: refused first

	lanes = 3
)

// String gives the lane as metrics and logs name it.
func (l Lane) String() string {
	switch l {
	case Interactive:
		return "interactive"
	case Bulk:
		return "bulk"
	case Ahead:
		return "ahead"
	}
	return fmt.Sprintf("lane %d", uint8(l))
}

// patience is how many grants to higher lanes a waiting lane sits out before one is its own: every 4th place goes to a
// backfill that waits, so that a busy front page slows it down but cannot stop it. Every 16th goes to read-ahead, since
// the reader behind may have reached that chunk meanwhile and wait for this very read.
var patience = [lanes]int{Interactive: 0, Bulk: 3, Ahead: 15}

// waiter is a read that waits for a place.
type waiter struct {
	lane   Lane
	place  *list.Element // nil once it is out of the queue
	answer chan error    // of capacity 1; nil = it has a place. Sent once, after it left the queue
}

func (w *waiter) queued() bool { return w.place != nil }

// queue holds the waiting reads. Its zero value is empty. It is guarded by the pool's mutex.
type queue struct {
	lanes [lanes]list.List
	sat   [lanes]int // grants that a waiting lane has sat out
	len   int
}

func (q *queue) push(lane Lane) *waiter {
	w := &waiter{lane: lane, answer: make(chan error, 1)}
	w.place = q.lanes[lane].PushBack(w)
	q.len++
	return w
}

func (q *queue) remove(w *waiter) {
	l := &q.lanes[w.lane]
	l.Remove(w.place)
	w.place = nil
	q.len--
	if l.Len() == 0 {
		q.sat[w.lane] = 0
	}
}

// last gives the waiter that came last to a lane, nil when there is none.
func (q *queue) last(lane Lane) *waiter {
	if e := q.lanes[lane].Back(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

// next takes out the waiter whose turn it is, nil when none waits.
func (q *queue) next() *waiter {
	turn := -1
	for lane := range q.lanes {
		if q.lanes[lane].Len() == 0 {
			continue
		}
		if turn < 0 || q.sat[lane] >= patience[lane] {
			turn = lane
		}
	}
	if turn < 0 {
		return nil
	}
	for lane := turn + 1; lane < lanes; lane++ {
		if q.lanes[lane].Len() > 0 {
			q.sat[lane]++
		}
	}
	q.sat[turn] = 0
	w := q.lanes[turn].Front().Value.(*waiter)
	q.remove(w)
	return w
}

// drain takes out every waiter.
func (q *queue) drain() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for w := q.next(); w != nil; w = q.next() {
			if !yield(w) {
				return
			}
		}
	}
}
