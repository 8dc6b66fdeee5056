package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	stalledClients = 1000
	stalledCache   = 64 << 20
	// stalledBound is what the gateway is configured to hold: chunks, indexes (128 MiB) and decoding (256 MiB).
	stalledBound = stalledCache + 128<<20 + 256<<20
	headroom     = 256 << 20
	// stalledPatience bounds the whole attempt of the new client; it is not a figure.
	stalledPatience = 2 * time.Minute
)

// stalledSpec is 256 MiB, so that a thousand readers want more chunks than the arena has.
var stalledSpec = Spec{Segments: 4, SegmentBytes: 64 << 20, BatchRecords: 64, ValueBytes: 1000}

// Stalled opens a thousand connections, asks for 16 MiB of raw batches on each and reads nothing, then serves a new
// client and looks at the gateway's highest resident set.
func Stalled(ctx context.Context, self Self) ([]Figure, error) {
	setup, err := newGatewaySetup(ctx, stalledSpec, "{memory: 64MiB, chunk: 1MiB}")
	if err != nil {
		return nil, err
	}
	defer setup.remove()
	gateway, err := setup.serve(ctx, self)
	if err != nil {
		return nil, err
	}
	defer gateway.stop()
	ctx, cancel := context.WithTimeout(ctx, stalledPatience)
	defer cancel()
	for i := range stalledClients {
		conn, err := stall(ctx, gateway.addr, int64(i)*setup.data.Records/stalledClients)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
		defer conn.Close()
	}
	url := fmt.Sprintf("http://%s/topics/%s/partitions/0/records?offset=%d&max_bytes=%d",
		gateway.addr, Topic, setup.data.Records/2, 4<<20)
	n, err := get(ctx, &http.Client{}, url, make([]byte, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("a new client was not served: %w", err)
	}
	peak, err := gateway.peakMemory()
	if err != nil {
		return nil, err
	}
	const mib = 1 << 20
	return []Figure{
		atLeast("MiB served to a new client", float64(n)/mib, 3.5, ""),
		atMost("peak resident MiB, 1,000 stalled clients", float64(peak)/mib, (stalledBound+headroom)/mib, ""),
	}, nil
}

// stall asks for raw batches and reads nothing of the answer.
func stall(ctx context.Context, addr string, offset int64) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// A small window: the answer must wait in the gateway, not in this machine's socket buffers.
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		return conn, err
	}
	_, err = fmt.Fprintf(conn, "GET /topics/%s/partitions/0/records?offset=%d&max_bytes=%d HTTP/1.1\r\nHost: %s\r\n"+
		"Accept: application/vnd.kafka.recordbatch\r\n\r\n", Topic, offset, 16<<20, addr)
	return conn, err
}
