package gateway

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"coldtap/internal/episode"

	"github.com/prometheus/client_golang/prometheus"
)

// passing are the errors of accept that say nothing about the listener: the process or the system is short of
// something, or one connection, or the network below it, failed before it was accepted (accept(2) lists them for
// Linux). The numbers are Windows' names of the same (WSAEINTR, WSAEMFILE, WSAECONNABORTED, WSAECONNRESET, WSAENOBUFS).
var passing = [...]syscall.Errno{
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

// patientListener waits out accept errors that pass, which both planes' servers would take for, or turn into, the end
// of serving. Each counts; of a kind one a minute is logged.
type patientListener struct {
	net.Listener
	log    *slog.Logger
	failed prometheus.Counter

	closeOnce sync.Once
	closed    chan struct{}

	logged episode.Seldom[syscall.Errno]
}

func newPatientListener(ln net.Listener, log *slog.Logger, failed prometheus.Counter) *patientListener {
	return &patientListener{Listener: ln, log: log, failed: failed, closed: make(chan struct{}), logged: episode.Seldom[syscall.Errno]{Every: acceptLogEvery}}
}

func (l *patientListener) Accept() (net.Conn, error) {
	for wait := firstAcceptWait; ; wait = min(2*wait, lastAcceptWait) {
		conn, err := l.Listener.Accept()
		kind, passes := acceptErrorPasses(err)
		if !passes {
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
func (l *patientListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func acceptErrorPasses(err error) (kind syscall.Errno, passes bool) {
	if !errors.As(err, &kind) {
		return 0, false
	}
	for _, e := range passing {
		if kind == e {
			return kind, true
		}
	}
	return 0, false
}

// acceptErrors makes the counter of one plane.
func acceptErrors(reg prometheus.Registerer, plane string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "coldtap_gateway_accept_errors_total",
		Help:        "Connections that could not be accepted at first, by plane (data or admin), because the process or the system was short of something, mostly file descriptors.",
		ConstLabels: prometheus.Labels{"plane": plane},
	})
	if reg != nil {
		reg.MustRegister(c)
	}
	return c
}

// onLoopback says whether only this machine reaches the listener.
func onLoopback(ln net.Listener) bool {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
