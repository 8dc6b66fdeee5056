package engine

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"coldtap/internal/episode"
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// transientErrors are the errors of accept that say nothing about the listener: the process or the system is short of
// something, or one connection, or the network below it, failed before it was accepted (accept(2) lists them for
// Linux). The numbers are Windows' names of the same (WSAEINTR, WSAEMFILE, WSAECONNABORTED, WSAECONNRESET, WSAENOBUFS).
var transientErrors = [...]syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR, syscall.EAGAIN, syscall.EPROTO, syscall.EPERM, syscall.ETIMEDOUT,
	syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENOPROTOOPT,
	10004, 10024, 10053, 10054, 10055,
}

const (
	// A failed accept is tried again after firstAcceptWait, then after twice as long each time, up to lastAcceptWait.
	firstAcceptWait = 5 * time.Millisecond
	lastAcceptWait  = time.Second
	// acceptLogEvery is how often an accept error of one kind is logged while it lasts.
	acceptLogEvery = time.Minute
)

// retryingListener tries a failed accept again where the error is transient: the servers of both planes would take it
// for the end of serving. Each error counts; of a kind one a minute is logged.
type retryingListener struct {
	net.Listener
	log    *slog.Logger
	failed prometheus.Counter

	closeOnce sync.Once
	closed    chan struct{}

	logged episode.Seldom[syscall.Errno]
}

// RetryAccept makes a listener that tries transient errors of Accept again. failed counts them (see AcceptErrors).
func RetryAccept(ln net.Listener, log *slog.Logger, failed prometheus.Counter) net.Listener {
	return newRetryingListener(ln, log, failed)
}

func newRetryingListener(ln net.Listener, log *slog.Logger, failed prometheus.Counter) *retryingListener {
	return &retryingListener{Listener: ln, log: log, failed: failed, closed: make(chan struct{}),
		logged: episode.Seldom[syscall.Errno]{Every: acceptLogEvery}}
}

func (l *retryingListener) Accept() (net.Conn, error) {
	for wait := firstAcceptWait; ; wait = min(2*wait, lastAcceptWait) {
		conn, err := l.Listener.Accept()
		kind, again := transient(err)
		if !again {
			return conn, err
		}
		l.failed.Inc()
		if l.logged.Due(kind, time.Now()) {
			l.log.Warn("a connection could not be accepted; it is tried again", "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close ends a wait in Accept too.
func (l *retryingListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func transient(err error) (kind syscall.Errno, yes bool) {
	yes = errors.As(err, &kind) && slices.Contains(transientErrors[:], kind)
	return kind, yes
}

// AcceptErrors makes the counter of one plane.
func AcceptErrors(reg prometheus.Registerer, plane string) prometheus.Counter {
	s := metric.For(reg)
	defer s.Must()
	return s.Counter("coldtap_gateway_accept_errors_total",
		"Connections that could not be accepted at first, by plane (data or admin), because the process or the system was short of something, mostly file descriptors.",
		"plane", plane)
}

// OnLoopback says whether only this machine reaches the listener.
func OnLoopback(ln net.Listener) bool {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
