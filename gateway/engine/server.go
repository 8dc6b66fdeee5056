package engine

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/internal/budget"
	"coldtap/internal/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Config is what a Server needs. Every field but Registerer is required.
type Config struct {
	// Handle answers a request: it begins an Exchange first and calls its Handled last. It must recover its panics.
	Handle func(ctx *fasthttp.RequestCtx)
	// Malformed answers a request that fasthttp could not parse. The connection is closed after it.
	Malformed func(ctx *fasthttp.RequestCtx, err error)
	// Expect answers Expect: 100-continue and returns the status.
	Expect func(ctx *fasthttp.RequestCtx) int
	// Busy makes the whole answer to a connection above the bound. head: it asked with HEAD, and gets no body.
	Busy func(head bool) []byte

	// Decode is the memory that bodies are made and compressed in. The server sets its OnPressure.
	Decode *budget.Budget
	// StallTimeout is how long a client may take nothing of a body before it is cut; SetStallTimeout changes it.
	StallTimeout time.Duration
	// ReadTimeout is how long a request's header may take, IdleTimeout how long a connection may idle between requests.
	ReadTimeout, IdleTimeout time.Duration
	// Connections is the most connections at a time.
	Connections int
	// HeaderLimit and BodyLimit bound a request's line and header fields, and its body, in bytes.
	HeaderLimit, BodyLimit int

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

// Server serves HTTP on listeners. All methods may be called concurrently.
type Server struct {
	http         fasthttp.Server
	busy         func(head bool) []byte
	log          *slog.Logger
	metrics      *metrics
	decode       *budget.Budget
	compressors  compressors
	connections  int
	stallTimeout atomic.Int64 // a time.Duration
	clients      clients
	turnedAway   chan struct{} // holds an element for each connection above the bound whose request is awaited

	draining   atomic.Bool
	startOnce  sync.Once
	background sync.WaitGroup // the client watch, and connections that are turned away
	stop       chan struct{}  // ends the client watch
	stopOnce   sync.Once
	stopped    chan struct{} // closed when Shutdown has ended
	stopErr    error         // valid after stopped
}

// New makes a server. It serves once Serve is called.
func New(cfg Config) *Server {
	s := &Server{
		busy:        cfg.Busy,
		log:         cfg.Logger,
		metrics:     newMetrics(cfg.Registerer),
		decode:      cfg.Decode,
		compressors: newCompressors(),
		connections: cfg.Connections,
		turnedAway:  make(chan struct{}, maxTurnedAway),
		stop:        make(chan struct{}),
		stopped:     make(chan struct{}),
	}
	s.clients = clients{metrics: s.metrics, exchanges: map[*Exchange]struct{}{}, conns: map[net.Conn]struct{}{}}
	s.decode.OnPressure(func(wanted budget.Shares) { s.Relieve(Memory(wanted)) })
	s.SetStallTimeout(cfg.StallTimeout)
	s.http = fasthttp.Server{
		Handler:            cfg.Handle,
		ErrorHandler:       cfg.Malformed,
		ExpectHandler:      cfg.Expect,
		ConnState:          s.clients.connState,
		Logger:             debugLogger{s.log},
		ReadTimeout:        cfg.ReadTimeout,
		IdleTimeout:        cfg.IdleTimeout,
		WriteTimeout:       cfg.StallTimeout,    // for headers and small bodies; larger ones set their own deadlines
		Concurrency:        2 * cfg.Connections, // fasthttp refuses in plain text: the bound of its listener is reached before
		ReadBufferSize:     cfg.HeaderLimit,
		MaxRequestBodySize: cfg.BodyLimit,
		// Idle connections keep 6 KB instead of 16 (measured with 4,000 of them), at no loss for large bodies.
		ReduceMemoryUsage:             true,
		NoDefaultServerHeader:         true,
		CloseOnShutdown:               true,
		SecureErrorLogMessage:         true,
		DisablePreParseMultipartForm:  true,
		DisableHeaderNamesNormalizing: false,
	}
	return s
}

// SetStallTimeout changes Config.StallTimeout for writes to come.
func (s *Server) SetStallTimeout(d time.Duration) { s.stallTimeout.Store(int64(d)) }

// Serve answers on a listener until Shutdown; then it returns nil. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	s.startOnce.Do(func() { s.background.Go(s.watch) })
	retrying := RetryAccept(ln, s.log.With("plane", "data"), s.metrics.acceptErrors)
	err := s.http.Serve(&boundedListener{Listener: retrying, server: s, loopback: OnLoopback(ln)})
	if s.draining.Load() {
		return nil
	}
	return err
}

// watch looks at the clients until the server stops.
func (s *Server) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.clients.check()
		case <-s.stop:
			return
		}
	}
}

// Draining says that Shutdown was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// Shutdown drains: no connection is accepted any more, idle ones are closed, running answers finish until ctx ends, and
// what still runs then is cut. It gives an error when something had to be cut. A second call waits for the first and
// gives its result.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.draining.Store(true)
		s.stopErr = s.shutdown(ctx)
		close(s.stopped)
	})
	select {
	case <-s.stopped:
		return s.stopErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) shutdown(ctx context.Context) error {
	err := s.http.ShutdownWithContext(ctx)
	if err != nil {
		s.clients.cutAll()
		// What was cut ends at once; a second is for goroutines to notice.
		after, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.http.ShutdownWithContext(after)
	}
	close(s.stop)
	s.background.Wait()
	if err != nil {
		return fmt.Errorf("answers still running after the drain limit were cut: %w", err)
	}
	return nil
}

// debugLogger keeps fasthttp's complaints about single connections out of the log above the debug level.
type debugLogger struct{ log *slog.Logger }

func (l debugLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("connection", slog.String("message", fmt.Sprintf(format, args...)))
	}
}

// metrics of the connections, every label value pre-created.
type metrics struct {
	inFlight     prometheus.Gauge
	stalled      prometheus.Gauge
	cut          [cutReasons]prometheus.Counter
	acceptErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	s := metric.For(reg)
	cut := s.CounterVec("coldtap_gateway_cut_clients_total",
		"Clients whose answer was ended: gone before it began, stalled for the stall timeout, stalled the longest under memory pressure, or still running at the drain limit.",
		"reason")
	m := &metrics{
		inFlight: s.Gauge("coldtap_gateway_in_flight_requests", "Requests being answered now."),
		stalled: s.Gauge("coldtap_gateway_stalled_clients",
			"Clients that have not taken the current slice of at most 1 MiB for a quarter of a second, as of the last look."),
		acceptErrors: AcceptErrors(reg, "data"),
	}
	s.Must()
	for r := cutGone; r < cutReasons; r++ {
		m.cut[r] = cut.WithLabelValues(r.String())
	}
	return m
}
