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
