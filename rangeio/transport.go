package rangeio

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
)

// transportTuning are the limits of one connection pool.
type transportTuning struct {
	connections int           // expected at a time; as many stay open idle, twice as many may be open
	dial        time.Duration // per address
	tls         time.Duration
	header      time.Duration // from the request's last byte to the answer's first
	write       time.Duration // for each piece of writePiece bytes to leave
	addresses   time.Duration // how long a name's addresses are reused
	dialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	// readHeader is a backstop above any healthy first byte (S3: tens of ms, a busy disk-based store: seconds); Client's
	// stall watch is the same or less.
	readHeader = 10 * time.Second
	// writeHeader leaves a store the time to join the parts of an upload.
	writeHeader = 2 * time.Minute
)

func readTuning(connections int) transportTuning {
	return transportTuning{
		connections: connections, dial: time.Second, tls: 3 * time.Second, header: readHeader, write: 10 * time.Second,
		// Short, so that a retry after a failed address asks again soon; S3 itself hands out addresses with a TTL of 5 s.
		addresses: 5 * time.Second,
	}
}

func writeTuning(connections int) transportTuning {
	t := readTuning(connections)
	t.header = writeHeader
	return t
}

// newTransport builds the pool. HTTP/1.1 only: S3 speaks nothing else, and one connection per read is what spreads the
// load over its front ends. No read timeout on the connection: it would also close idle pooled ones.
func newTransport(t transportTuning) *http.Transport {
	plain := t.dialContext
	if plain == nil {
		plain = (&net.Dialer{Timeout: t.dial, KeepAlive: 30 * time.Second}).DialContext
	}
	tr := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            plain,
		MaxIdleConns:           2 * t.connections,
		MaxIdleConnsPerHost:    t.connections,
		MaxConnsPerHost:        2 * t.connections,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    t.tls,
		ResponseHeaderTimeout:  t.header,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // Kafka's batches are compressed already, and a range of a gzip stream is useless
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
		Protocols:              new(http.Protocols),
	}
	tr.Protocols.SetHTTP1(true)
	transfermanager.WithRoundRobinDNS(func(o *transfermanager.RoundRobinDNSOptions) { o.TTL = t.addresses })(tr)
	spread := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		// One address of the name in turn; when that one does not answer, the ordinary dial tries all of them. "localhost"
		// with a server on 127.0.0.1 only is the everyday case: half of the turns go to ::1.
		conn, err := spread(ctx, network, addr)
		if err != nil && ctx.Err() == nil {
			conn, err = plain(ctx, network, addr)
		}
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: conn, timeout: t.write}, nil
	}
	return tr
}

// writePiece is what has to leave within the write timeout: 256 KiB in 10 s is slower than any store worth having.
const writePiece = 256 << 10

// boundedConn gives up on a peer that stops taking bytes. Nothing else does: net/http starts its timers when the
// request has left.
type boundedConn struct {
	net.Conn
	timeout time.Duration
}

func (c *boundedConn) Write(p []byte) (int, error) {
	done := 0
	for {
		if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(p[done:min(len(p), done+writePiece)])
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}
