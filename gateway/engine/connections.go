package engine

import (
	"bytes"
	"io"
	"net"
	"time"
)

const (
	// maxTurnedAway is how many connections above the bound have their request awaited at a time.
	maxTurnedAway = 64
	// turnAwayWait is how long a request of such a connection is waited for.
	turnAwayWait = 250 * time.Millisecond
	// turnAwayEnd is how long, then, the client may take to close.
	turnAwayEnd = time.Second
	// turnAwayRest bounds what is read of the client until it closes.
	turnAwayRest = 16 << 10
)

// boundedListener accepts for fasthttp: connections that can hold a header back, no more than Config.Connections.
type boundedListener struct {
	net.Listener
	server   *Server
	loopback bool
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.server.clients.connected() >= l.server.connections {
			l.server.turnAway(conn)
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &corkedConn{TCPConn: tcp, loopback: l.loopback}, nil
		}
		return conn, nil
	}
}

// turnAway gives a connection above the bound its answer and closes it. Its request is read first, and the connection
// closed when the client has: many clients take an answer that comes before their request for an error, and a close
// with bytes unread resets the connection, which may overtake the answer. Above maxTurnedAway at a time, the answer is
// all that they get.
func (s *Server) turnAway(conn net.Conn) {
	select {
	case s.turnedAway <- struct{}{}:
	default:
		conn.SetWriteDeadline(time.Now().Add(turnAwayWait)) // an empty send buffer takes it at once
		conn.Write(s.busy(false))
		conn.Close()
		return
	}
	s.background.Go(func() {
		defer func() {
			conn.Close()
			<-s.turnedAway
		}()
		conn.SetDeadline(time.Now().Add(turnAwayWait))
		request := make([]byte, 4<<10)
		n, _ := conn.Read(request)
		conn.SetDeadline(time.Now().Add(turnAwayEnd))
		if _, err := conn.Write(s.busy(bytes.HasPrefix(request[:n], []byte("HEAD ")))); err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
		io.Copy(io.Discard, io.LimitReader(conn, turnAwayRest))
	})
}

// corkedConn is a connection that, while corked, keeps what is written to it. fasthttp flushes a large answer's header
// by itself; held back until the first bytes of the body are at hand, both leave in one system call and mostly in one
// packet, which takes a tenth off the processor time of a 64 KiB answer. Only its exchange's goroutine writes to it.
type corkedConn struct {
	*net.TCPConn
	loopback bool // it came by a listener on a loopback address
	corked   bool
	head     []byte
}

// maxIdleHead is the length of a header buffer that an idle connection keeps.
const maxIdleHead = 1 << 10

func (c *corkedConn) Write(p []byte) (int, error) {
	if c.corked {
		c.head = append(c.head, p...)
		return len(p), nil
	}
	return c.TCPConn.Write(p)
}

// NetConn gives the connection underneath, for vectored writes.
func (c *corkedConn) NetConn() net.Conn { return c.TCPConn }

// cork holds back what is written until the body's first slice takes it along. A body that fails before it has one
// ends the connection.
func (c *corkedConn) cork() {
	c.corked, c.head = true, c.head[:0]
}

// uncork ends holding back, and gives what was held back.
func (c *corkedConn) uncork() []byte {
	c.corked = false
	return c.head
}

// headSent forgets what was held back.
func (c *corkedConn) headSent() {
	if c.head = c.head[:0]; cap(c.head) > maxIdleHead {
		c.head = nil
	}
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		t.SetLinger(0)
	}
	conn.Close()
}
