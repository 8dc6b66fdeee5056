package gateway

import (
	"cmp"
	"net"
	"slices"
	"sync"
	"time"
)

// phase is what an exchange is doing.
type phase uint8

const (
	phaseBusy    phase = iota // computing: neither waits for anything
	phaseWaiting              // for data or memory
	phaseWriting              // for the client to take bytes
	phaseAhead                // for more data, to learn an answer's length, with some in hand that could be sent
	phaseHurried              // the same, but told to stop: ctx is cancelled
)

// phaseBits of the phase word are the phase, the rest is the instant it began.
const phaseBits = 3

// memory says which bounded memory an exchange holds while it waits for its client.
type memory uint32

const (
	chunkMemory memory = 1 << iota
	decodeMemory
)

// cutReason says why an exchange was ended from outside.
type cutReason uint8

const (
	notCut      cutReason = iota
	cutGone               // the client closed its side while it waited
	cutStalled            // it took nothing for the stall timeout
	cutPressure           // memory was wanted and it had stalled the longest
	cutDrain              // the server stops and the drain limit is over
	cutReasons
)

func (r cutReason) String() string {
	return [cutReasons]string{"", "gone", "stalled", "pressure", "drain"}[r]
}

const (
	// watchInterval is how often the watch looks at the clients; a request that has waited no longer than it is not
	// looked at, so that a hit never costs a system call.
	watchInterval = 250 * time.Millisecond
	// stalledFrom is how long a write of one slice must have been blocked before memory pressure may cut its client:
	// 1 MiB in 250 ms is 4 MiB/s, and slower clients are cut only while loads wait and nothing moves.
	stalledFrom = 250 * time.Millisecond
)

// processStart makes instants small enough to share a word with the phase.
var processStart = time.Now()

// enter notes what the exchange does from now on, and gives what it did until now.
func (x *exchange) enter(p phase) phase {
	before := x.phase.Swap(int64(time.Since(processStart))<<phaseBits | int64(p))
	return phase(before & (1<<phaseBits - 1))
}

// doing gives what the exchange does and for how long it has been doing that.
func (x *exchange) doing() (phase, time.Duration) { return unpackPhase(x.phase.Load()) }

func unpackPhase(v int64) (phase, time.Duration) {
	return phase(v & (1<<phaseBits - 1)), time.Since(processStart) - time.Duration(v>>phaseBits)
}

// hurryUp ends looking ahead, if that is what the exchange still does. The phase word decides: once the exchange has
// left the phase, its context is its own again.
func (x *exchange) hurryUp() bool {
	v := x.phase.Load()
	if p, _ := unpackPhase(v); p != phaseAhead || !x.phase.CompareAndSwap(v, v-int64(phaseAhead)+int64(phaseHurried)) {
		return false
	}
	x.cancel()
	return true
}

// clients is every exchange under way and every open connection. One goroutine watches them: whether a client that
// waits for data is still there can only be asked of its socket, and one goroutine asking for all costs less than a
// reader each.
type clients struct {
	metrics *metrics

	mu    sync.Mutex
	first *exchange
	conns map[net.Conn]struct{}
	// lastCut and atATime say when pressure last cut clients, and how many it cuts the next time.
	lastCut time.Time
	atATime int
}

func (c *clients) add(x *exchange) {
	c.mu.Lock()
	x.prev, x.next = nil, c.first
	if c.first != nil {
		c.first.prev = x
	}
	c.first = x
	c.mu.Unlock()
	c.metrics.inFlight.Inc()
}

func (c *clients) remove(x *exchange) {
	c.mu.Lock()
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		c.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	x.next, x.prev = nil, nil
	c.mu.Unlock()
	c.metrics.inFlight.Dec()
}

// tick looks at every exchange once. Peeking does not block, so that it may be done under the mutex, which keeps an
// exchange, and hence its connection, from being ended and used for another request meanwhile.
func (c *clients) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	stalled := 0
	for x := c.first; x != nil; x = x.next {
		switch p, since := x.doing(); {
		case (p == phaseWaiting || p == phaseAhead) && since >= watchInterval:
			if clientGone(x.conn) {
				c.cutLocked(x, cutGone)
			}
		case p == phaseWriting && since >= stalledFrom:
			stalled++
		}
	}
	c.metrics.stalled.Set(float64(stalled))
}

// cutLongest ends the exchanges that have been stalled in a write the longest among those that hold some of the memory
// that is wanted: one, then twice as many each time it is asked again within a second, since behind a stalled client
// may wait a hundred that will stall as well. Readers that wait for more while they hold some of it are told to make do
// first: they may be waiting for each other, and lose nothing but the rest of this answer. One that promised to go on
// to its end would break, which only readers of chunks, who would wait for ever, have to.
func (c *clients) cutLongest(wanted memory) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stalled []*exchange
	hurried := false
	for x := c.first; x != nil; x = x.next {
		if memory(x.holds.Load())&wanted == 0 || cutReason(x.cut.Load()) != notCut {
			continue
		}
		switch p, since := x.doing(); {
		case p == phaseAhead && (wanted == chunkMemory || !x.body.toEnd):
			hurried = x.hurryUp() || hurried
		case p == phaseWriting && since >= stalledFrom:
			stalled = append(stalled, x)
		}
	}
	if hurried {
		return true
	}
	now := time.Now()
	if now.Sub(c.lastCut) > time.Second {
		c.atATime = 1
	}
	if len(stalled) == 0 {
		return false
	}
	// A write's instant of begin is what the phase word starts with: the smaller, the longer ago.
	slices.SortFunc(stalled, func(a, b *exchange) int { return cmp.Compare(a.phase.Load(), b.phase.Load()) })
	for _, x := range stalled[:min(c.atATime, len(stalled))] {
		c.cutLocked(x, cutPressure)
	}
	c.lastCut, c.atATime = now, 2*c.atATime
	return true
}

// cutLocked ends an exchange: what it waits for is cancelled, its connection reset, so that the kernel drops what it
// still holds for the client as well. Its own goroutine then cleans up.
func (c *clients) cutLocked(x *exchange, reason cutReason) {
	if !x.cut.CompareAndSwap(uint32(notCut), uint32(reason)) {
		return
	}
	c.metrics.cut[reason].Inc()
	x.cancel()
	reset(x.conn)
}

// cutStalled ends an exchange whose client took nothing for the stall timeout. Its own goroutine calls this.
func (c *clients) cutStalled(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(x, cutStalled)
}

// cutAll ends every exchange and closes every connection.
func (c *clients) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := c.first; x != nil; x = x.next {
		c.cutLocked(x, cutDrain)
	}
	for conn := range c.conns {
		conn.Close()
	}
}

func (c *clients) opened(conn net.Conn) {
	c.mu.Lock()
	c.conns[conn] = struct{}{}
	c.mu.Unlock()
}

// connected is how many connections are open.
func (c *clients) connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

func (c *clients) closed(conn net.Conn) {
	c.mu.Lock()
	delete(c.conns, conn)
	c.mu.Unlock()
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		t.SetLinger(0)
	}
	conn.Close()
}
