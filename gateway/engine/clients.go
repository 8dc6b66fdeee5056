package engine

import (
	"cmp"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// phase is what an exchange is doing.
type phase uint8

const (
	computing         phase = iota // waits for nothing
	waiting                        // for data or memory
	writing                        // for the client to take bytes
	lookingAhead                   // waits for more data, with some in hand that could be sent
	lookingAheadToEnd              // the same, but the answer was promised whole
	interruptedAhead               // one of the two was interrupted: the context is cancelled
)

// phaseBits of the phase word are the phase, the rest is the instant it began.
const phaseBits = 3

// Memory is a set of the bounded memory that an exchange may hold while it waits for its client: shares of the decode
// budget (a budget.Shares), and Chunks.
type Memory uint32

// Chunks are pinned in the cache.
const Chunks Memory = 1 << 31

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
	// watchInterval is how often the clients are checked; a request that has waited no longer than it is not looked at,
	// so that a hit never costs a system call.
	watchInterval = 250 * time.Millisecond
	// stalledFrom is how long a write of one slice must have been blocked before memory pressure may cut its client:
	// 1 MiB in 250 ms is 4 MiB/s, and slower clients are cut only while loads wait and nothing moves.
	stalledFrom = 250 * time.Millisecond
)

// processStart makes instants small enough to share a word with the phase.
var processStart = time.Now()

// setPhase notes what the exchange does from now on, and gives what it did until now.
func (x *Exchange) setPhase(p phase) phase {
	before := x.phase.Swap(int64(time.Since(processStart))<<phaseBits | int64(p))
	return phase(before & (1<<phaseBits - 1))
}

// unpackPhase gives what the phase word says an exchange does, and for how long it has been doing that.
func unpackPhase(v int64) (phase, time.Duration) {
	return phase(v & (1<<phaseBits - 1)), time.Since(processStart) - time.Duration(v>>phaseBits)
}

// interrupt ends looking ahead, if that is what the exchange still does. The phase word decides: once the exchange has
// left the phase, its context is its own again.
func (x *Exchange) interrupt(v int64) bool {
	p, _ := unpackPhase(v)
	if !x.phase.CompareAndSwap(v, v-int64(p)+int64(interruptedAhead)) {
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

	mu        sync.Mutex
	exchanges map[*Exchange]struct{}
	conns     map[net.Conn]struct{}
	// nextCut says when pressure last cut clients and how many it cuts the next time: for decode memory, and for chunks.
	nextCut [2]struct {
		last    time.Time
		clients int
	}
}

func (c *clients) add(x *Exchange) {
	c.mu.Lock()
	c.exchanges[x] = struct{}{}
	c.mu.Unlock()
	c.metrics.inFlight.Inc()
}

func (c *clients) remove(x *Exchange) {
	c.mu.Lock()
	delete(c.exchanges, x)
	c.mu.Unlock()
	c.metrics.inFlight.Dec()
}

// check looks at every exchange once. Peeking does not block, so that it may be done under the mutex, which keeps an
// exchange, and hence its connection, from being ended and used for another request meanwhile.
func (c *clients) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	stalled := 0
	for x := range c.exchanges {
		switch p, since := unpackPhase(x.phase.Load()); {
		case (p == waiting || p == lookingAhead || p == lookingAheadToEnd) && since >= watchInterval:
			if closedByClient(x.conn) {
				c.cutLocked(x, cutGone)
			}
		case p == writing && since >= stalledFrom:
			stalled++
		}
	}
	c.metrics.stalled.Set(float64(stalled))
}

// Relieve makes exchanges let go of the wanted memory, and says whether one does. Those that look ahead while they hold
// some are interrupted first: they may be waiting for each other, and lose nothing but the rest of this answer; an
// answer that was promised whole would break, which only pressure on chunks does, since readers of chunks would wait
// for ever. If there are none, the clients that have been stalled in a write the longest are cut: one, then twice as
// many each time memory of the same kind is wanted again within a second, since behind a stalled client may wait a
// hundred that will stall as well.
func (s *Server) Relieve(wanted Memory) bool {
	c := &s.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	type write struct {
		x     *Exchange
		since int64
	}
	var stalled []write
	interrupted := false
	for x := range c.exchanges {
		if Memory(x.holds.Load())&wanted == 0 || cutReason(x.cut.Load()) != notCut {
			continue
		}
		v := x.phase.Load()
		switch p, since := unpackPhase(v); {
		case p == lookingAhead || p == lookingAheadToEnd && wanted == Chunks:
			interrupted = x.interrupt(v) || interrupted
		case p == writing && since >= stalledFrom:
			stalled = append(stalled, write{x, v >> phaseBits})
		}
	}
	if interrupted {
		return true
	}
	if len(stalled) == 0 {
		return false
	}
	next := &c.nextCut[min(wanted&Chunks, 1)]
	now := time.Now()
	if now.Sub(next.last) > time.Second {
		next.clients = 1
	}
	slices.SortFunc(stalled, func(a, b write) int { return cmp.Compare(a.since, b.since) })
	for _, s := range stalled[:min(next.clients, len(stalled))] {
		c.cutLocked(s.x, cutPressure)
	}
	next.last, next.clients = now, 2*next.clients
	return true
}

// cutLocked ends an exchange: what it waits for is cancelled, its connection reset, so that the kernel drops what it
// still holds for the client as well. Its own goroutine then cleans up.
func (c *clients) cutLocked(x *Exchange, reason cutReason) {
	if !x.cut.CompareAndSwap(uint32(notCut), uint32(reason)) {
		return
	}
	c.metrics.cut[reason].Inc()
	x.cancel()
	reset(x.conn)
}

// cutStalled ends an exchange whose client took nothing for the stall timeout. Its own goroutine calls this.
func (c *clients) cutStalled(x *Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(x, cutStalled)
}

// cutAll ends every exchange and closes every connection.
func (c *clients) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.exchanges {
		c.cutLocked(x, cutDrain)
	}
	for conn := range c.conns {
		conn.Close()
	}
}

// connState counts connections as fasthttp opens and closes them.
func (c *clients) connState(conn net.Conn, state fasthttp.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case fasthttp.StateNew:
		c.conns[conn] = struct{}{}
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		delete(c.conns, conn)
	}
}

// connected is how many connections are open.
func (c *clients) connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}
