package gateway

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"coldtap/fetch"
)

// TestL3ClientsGone: clients that take a little of a large answer and go away leave nothing that runs or is held, and
// what was read for them is far less than they had asked for.
func TestL3ClientsGone(t *testing.T) {
	const clients, pieces = 40, 64
	r := newHarness(t)
	var given atomic.Int64
	data := batch(1<<20, 'x')
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 10)
		for i := range pieces {
			s.runs = append(s.runs, fakeRun{data: data, next: int64(11 + i), do: func(context.Context) { given.Add(1) }})
		}
		return s, nil
	}
	var conns []net.Conn
	for range clients {
		conn := r.stall(t)
		if _, err := io.CopyN(io.Discard, conn, 100_000); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close()
	}
	until(t, "all answers have ended", func() bool {
		return r.metric("in_flight_requests") == 0 && r.closed.Load() == clients && r.pinned.Load() == 0
	})
	if n := given.Load(); n > clients*pieces/2 {
		t.Errorf("%d MiB were read for %d clients that took 100 KB each", n, clients)
	}
}
