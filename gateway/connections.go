package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// maxTurnedAway is how many connections above the bound may be told so with patience at a time.
	maxTurnedAway = 64
	// turnAwayWait is how long a request of such a connection is waited for.
	turnAwayWait = 250 * time.Millisecond
	// turnAwayEnd is how long, then, the client may take to end.
	turnAwayEnd = time.Second
)

// dataListener accepts for fasthttp: connections that can hold a header back, no more than Config.Concurrency.
type dataListener struct {
	net.Listener
	srv      *Server
	loopback bool
}

func (l *dataListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.srv.clients.connected() >= l.srv.concurrency {
			l.srv.turnAway(conn)
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &corkedConn{TCPConn: tcp, loopback: l.loopback}, nil
		}
		return conn, nil
	}
}

// turnAway answers a connection above the bound with 503 and closes it. Its request is read first, and the connection
// closed when the client has: many clients take an answer that comes before their request for an error, and a close
// with bytes unread resets the connection, which may overtake the answer. Where very many come at a time, the answer is
// all that they get.
func (s *Server) turnAway(conn net.Conn) {
	select {
	case s.turnedAway <- struct{}{}:
	default:
		conn.SetWriteDeadline(time.Now().Add(turnAwayWait)) // an empty send buffer takes it at once
		conn.Write(s.full(nil))
		conn.Close()
		return
	}
	s.watching.Go(func() {
		defer func() {
			conn.Close()
			<-s.turnedAway
		}()
		conn.SetDeadline(time.Now().Add(turnAwayWait))
		request := make([]byte, 4<<10)
		n, _ := conn.Read(request)
		conn.SetDeadline(time.Now().Add(turnAwayEnd))
		if _, err := conn.Write(s.full(request[:n])); err != nil {
			return
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
		io.Copy(io.Discard, io.LimitReader(conn, headerLimit))
	})
}

// full is the answer above the bound of connections.
func (s *Server) full(request []byte) []byte {
	p := newProblem(codeBusy, "all %d connections are in use; try again", s.concurrency)
	p.retryAfter = time.Second
	body := p.appendBody(nil, "")
	answer := fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: %s\r\nRetry-After: %d\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n",
		formats[formatJSON].mediaType, p.retrySeconds(), appendRequestID(nil, nil), len(body))
	if bytes.HasPrefix(request, []byte("HEAD ")) {
		body = nil
	}
	s.metrics.observe(routeOther, p.status(), 0, int64(len(body)))
	return append(answer, body...)
}
