package engine

import "net"

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
