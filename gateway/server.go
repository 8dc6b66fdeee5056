package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/fetch"
	"coldtap/internal/budget"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Config is what the data plane needs. Zero durations and sizes take the defaults given.
type Config struct {
	Service *fetch.Service
	// MaxResponseBytes is the largest max_bytes that a request for a JSON or v2 answer may give; default 256 MiB. What is
	// sent while it is read (raw, ndjson, events) is not bounded by it.
	MaxResponseBytes int64
	// LookAhead is how many bytes of raw batches may be pinned before the status line to learn the answer's length;
	// default 8 MiB, two chunks of the usual size.
	LookAhead int64
	// Decode bounds the memory of JSON answers and ndjson buffers; default a budget of its own of 256 MiB.
	Decode *budget.Budget
	// StallTimeout is how long a client may take nothing before it is cut; default 30 s. One that took something in
	// the meantime is cut between one and two of it.
	StallTimeout time.Duration
	// ReadTimeout is how long a request's header may take from its first byte, or from the connection's start;
	// default 10 s. IdleTimeout is how long a connection may idle between requests; default 60 s.
	ReadTimeout, IdleTimeout time.Duration
	// Hosts are the names that a listener on a loopback address answers to, besides localhost and IP literals.
	Hosts []string
	// GetPrice is what the store charges for 1,000 GETs, TransferPrice what it charges for a GiB read from it, in
	// whatever currency; plans (explain) estimate costs by them. Both 0: not known.
	GetPrice, TransferPrice float64
	// Concurrency is the most connections served at a time; default DefaultConcurrency. Above it they get 503 and are
	// closed.
	Concurrency int

	Logger     *slog.Logger          // default: discards
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

// DefaultConcurrency is the default of Config.Concurrency.
const DefaultConcurrency = 16 << 10

const (
	// headerLimit is the most that request line and header fields may take together; above it 431.
	headerLimit = 16 << 10
	// requestBodyLimit bounds the bodies of GETs, which nobody reads, and of methods that are refused.
	requestBodyLimit = 4 << 10
	// minJSONShare keeps JSON useful with a small decode budget.
	minJSONShare = 1 << 20
)

// Server is the data plane. All methods may be called concurrently.
type Server struct {
	service service
	log     *slog.Logger
	metrics *metrics
	decode  *budget.Budget

	compressors compressors
	prices      prices

	lookAhead int64
	jsonShare int // bytes at which a JSON answer stops, once its first batch is whole: an eighth of the budget
	limits    atomic.Pointer[limits]

	http        fasthttp.Server
	clients     clients
	guard       siteGuard
	concurrency int
	turnedAway  chan struct{} // a place for each connection above concurrency that is being told so

	draining  atomic.Bool
	watchOnce sync.Once
	stop      chan struct{} // closed when Shutdown begins to end
	stopOnce  sync.Once
	watching  sync.WaitGroup
	stopped   chan struct{} // closed when Shutdown has ended
	stopErr   error         // valid after stopped
}

// New makes a data plane. It serves once Serve is called.
func New(cfg Config) *Server {
	return newServer(cfg, fetchService{cfg.Service})
}

func newServer(cfg Config, service service) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Decode == nil {
		cfg.Decode = budget.NewWithReserve(256<<20, 8<<20)
	}
	s := &Server{
		service:     service,
		log:         cfg.Logger,
		metrics:     newMetrics(cfg.Registerer),
		decode:      cfg.Decode,
		compressors: newCompressors(),
		prices:      prices{cfg.GetPrice, cfg.TransferPrice},
		lookAhead:   orDefault(cfg.LookAhead, 8<<20),
		jsonShare:   int(min(max(cfg.Decode.Size()/8, minJSONShare), cfg.Decode.Size())),
		guard:       newSiteGuard(cfg.Hosts),
		concurrency: orDefault(cfg.Concurrency, DefaultConcurrency),
		turnedAway:  make(chan struct{}, maxTurnedAway),
		stop:        make(chan struct{}),
		stopped:     make(chan struct{}),
	}
	s.clients = clients{metrics: s.metrics, conns: make(map[net.Conn]struct{})}
	// Clients that take nothing keep the memory of their answers: who waits for it has the longest-stalled cut.
	s.decode.OnPressure(func() { s.clients.cutLongest(decodeMemory) })
	s.SetLimits(cfg.MaxResponseBytes, cfg.StallTimeout)
	s.http = fasthttp.Server{
		Handler:            s.handle,
		ErrorHandler:       s.refuse,
		ExpectHandler:      s.expect,
		ConnState:          s.connState,
		Logger:             quietLogger{s.log},
		ReadTimeout:        orDefault(cfg.ReadTimeout, 10*time.Second),
		IdleTimeout:        orDefault(cfg.IdleTimeout, 60*time.Second),
		WriteTimeout:       s.limits.Load().stallTimeout, // for headers and small bodies; larger ones set their own deadlines
		Concurrency:        2 * s.concurrency,            // its own bound answers in plain text: ours is reached before
		ReadBufferSize:     headerLimit,
		MaxRequestBodySize: requestBodyLimit,
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

// limits are what can change while the server runs.
type limits struct {
	maxBytes     int64
	stallTimeout time.Duration
}

// SetLimits changes Config.MaxResponseBytes and Config.StallTimeout for requests and writes to come; zero values take
// the defaults.
func (s *Server) SetLimits(maxResponseBytes int64, stallTimeout time.Duration) {
	s.limits.Store(&limits{orDefault(maxResponseBytes, 256<<20), orDefault(stallTimeout, 30*time.Second)})
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Serve answers on a listener until Shutdown; then it returns nil. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	s.watchOnce.Do(func() { s.watching.Go(s.watch) })
	patient := newPatientListener(ln, s.log.With("plane", "data"), s.metrics.acceptErrors)
	err := s.http.Serve(&dataListener{Listener: patient, srv: s, loopback: onLoopback(ln)})
	if s.draining.Load() {
		return nil
	}
	return err
}

func (s *Server) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.clients.tick()
		case <-s.stop:
			return
		}
	}
}

// Ready says why the data plane should get no requests now: it is draining, or the metadata is not ready.
func (s *Server) Ready() error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	return s.service.Ready()
}

// Shutdown drains: readiness turns first, no connection is accepted any more, idle ones are closed, running answers
// finish until ctx ends, and what still runs then is cut. It gives an error when something had to be cut. A second call
// waits for the first and gives its result.
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
	s.watching.Wait()
	if err != nil {
		return fmt.Errorf("answers still running after the drain limit were cut: %w", err)
	}
	return nil
}

// CutLongestStalled makes a client's answer let go of chunks that others wait for: answers that hold some and wait for
// more go out as they are, and if there are none, the client that has been blocked in a write the longest is cut.
// false: nobody holds any for long. It is meant for cache.Config.Pressure, which asks again while loads wait.
func (s *Server) CutLongestStalled() bool { return s.clients.cutLongest(chunkMemory) }

// handle is fasthttp's handler. fasthttp does not recover panics: one here would end the process.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	defer func() {
		if cause := recover(); cause != nil {
			x.panicked(cause)
		}
		x.handling = false
		if !x.streaming {
			x.end()
			return
		}
		x.enter(phaseWriting) // the header, by fasthttp, with the body's memory held
	}()
	err := suspicious(ctx)
	if err == nil {
		err = s.foreign(ctx)
	}
	if err != nil {
		x.fail(err)
		x.resp.SetConnectionClose()
		return
	}
	if err := x.dispatch(ctx); err != nil {
		x.fail(err)
	}
}

// foreign refuses what comes from other sites' pages.
func (s *Server) foreign(ctx *fasthttp.RequestCtx) *problem {
	h := &ctx.Request.Header
	conn, _ := ctx.Conn().(*corkedConn)
	return s.guard.refuse(&siteRequest{
		loopback: conn != nil && conn.loopback, http10: !h.IsHTTP11(), hosts: [2][]byte{h.Host(), ctx.URI().Host()},
		origin: h.Peek("Origin"), site: h.Peek("Sec-Fetch-Site"), mode: h.Peek("Sec-Fetch-Mode"), dest: h.Peek("Sec-Fetch-Dest"),
	})
}

// suspicious refuses what a proxy in front may read differently than fasthttp does, which takes chunks for the length
// of a body that has both, unfolds folded fields, and ends a line at a line feed alone.
func suspicious(ctx *fasthttp.RequestCtx) *problem {
	h := &ctx.Request.Header
	if version := string(h.Protocol()); version != "HTTP/1.1" && version != "HTTP/1.0" {
		return newProblem(codeVersion, "this is HTTP/1.1; %s is not spoken here", printable(h.Protocol()))
	}
	raw := h.RawHeaders()
	hosts, lengths, encodings := 0, 0, 0
	for len(raw) > 0 {
		var line []byte
		line, raw, _ = bytes.Cut(raw, []byte{'\n'})
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return newProblem(codeBadParameter, "a header line ends without a carriage return")
		}
		if line[0] == ' ' || line[0] == '\t' {
			return newProblem(codeBadParameter, "folded header field")
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case equalFold(name, "host"):
			hosts++
		case equalFold(name, "content-length"):
			lengths++
		case equalFold(name, "transfer-encoding"):
			encodings++
			if !equalFold(bytes.TrimSpace(value), "chunked") {
				return newProblem(codeBadParameter, "no transfer coding but chunked is understood")
			}
		}
	}
	switch {
	case hosts > 1:
		return newProblem(codeBadParameter, "more than one Host field")
	case hosts == 0 && h.IsHTTP11():
		return newProblem(codeBadParameter, "no Host field")
	case lengths > 1, encodings > 1, lengths > 0 && encodings > 0, encodings > 0 && !h.IsHTTP11():
		return newProblem(codeBadParameter, "ambiguous length of the request's body")
	}
	return nil
}

// expect answers Expect: 100-continue: no body is ever wanted.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	p := newProblem(codeExpectation, "no request takes a body")
	ctx.Response.Header.SetContentType(formats[formatJSON].mediaType)
	ctx.Response.Header.SetBytesV("X-Request-Id", appendRequestID(nil, ctx.Request.Header.Peek("X-Request-Id")))
	ctx.Response.SetBodyRaw(p.appendBody(nil, ""))
	s.metrics.observe(routeOther, p.status(), 0, 0)
	return p.status()
}

// refuse answers what fasthttp could not parse. The connection is closed after it.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	p := newProblem(codeBadParameter, "the request is malformed")
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	switch {
	case errors.As(err, &small):
		p = newProblem(codeHeaderSize, "request line and header fields are larger than %d bytes", headerLimit)
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = newProblem(codeBodyTooLarge, "the request's body is larger than %d bytes", requestBodyLimit)
	case errors.As(err, &netErr) && netErr.Timeout():
		p = newProblem(codeRequestTime, "the request did not arrive in time")
	}
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(p.status())
	ctx.Response.Header.SetContentType(formats[formatJSON].mediaType)
	ctx.Response.Header.SetBytesV("X-Request-Id", appendRequestID(nil, nil))
	ctx.Response.SetBodyRaw(p.appendBody(nil, ""))
	s.metrics.observe(routeOther, p.status(), 0, 0)
}

func (s *Server) connState(conn net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		s.clients.opened(conn)
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		s.clients.closed(conn)
	}
}

// quietLogger keeps fasthttp's complaints about single connections out of the log unless somebody debugs.
type quietLogger struct{ log *slog.Logger }

func (l quietLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("connection", slog.String("message", fmt.Sprintf(format, args...)))
	}
}
